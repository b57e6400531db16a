// Package config is the mechanism of settings. A [Key] declares one setting: its name, type,
// default, range, unit and meaning. A [Config] holds a value for each. Files, flags and --set give
// values, and [Resolve] checks them by the declarations.
//
// The package declares no key itself. Package algorithm declares the keys of every run, and each
// algorithm its own.
package config

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/fedsim/fedsim/internal/lists"
)

// Config holds a value for each declared key. It is a value: a change in a copy stays in the copy.
// The zero Config has every key at its default.
type Config struct {
	values map[*Key]value // only keys that were set; never changed in place
}

// value is a key's value, in the field of its kind.
type value struct {
	text   string
	number Number
	seed   uint64
	auto   bool // of a seed
	bound  *bound
}

// bound holds what a program attached to a text. Configurations compare it by its address.
type bound struct{ to any }

func (c Config) get(k *Key) value {
	if v, ok := c.values[k]; ok {
		return v
	}
	if k.DefaultBy != nil {
		return value{text: k.DefaultBy(c)}
	}
	v, err := k.parse(k.Default)
	if err != nil {
		panic(err) // the key's declaration has read the default already
	}
	return v
}

func (c Config) number(k *Key) Number { return c.get(k).number }

// put gives a key a value, in this copy alone. A default that follows from no other key is not stored, since copies take time.
func (c *Config) put(k *Key, v value) {
	if k.DefaultBy == nil && c.get(k) == v {
		return
	}
	values := make(map[*Key]value, len(c.values)+1)
	maps.Copy(values, c.values)
	values[k] = v
	c.values = values
}

// Equal reports whether all keys have the same values.
func (c Config) Equal(o Config) bool { return len(c.Differs(o)) == 0 }

// Differs names the keys that have other values, in the order of [Keys].
func (c Config) Differs(o Config) []*Key {
	return slices.DeleteFunc(Keys(), func(k *Key) bool { return c.get(k) == o.get(k) })
}

// Take gives a key the value that it has in another configuration.
func (c *Config) Take(k *Key, from Config) { c.put(k, from.get(k)) }

// Reset gives a key its default.
func (c *Config) Reset(k *Key) {
	c.values = maps.Clone(c.values)
	delete(c.values, k)
}

// IsDefault reports whether a key has its default.
func (c Config) IsDefault(k *Key) bool { return c.get(k) == Config{}.get(k) }

// IsAuto reports whether a key is left open.
func (c Config) IsAuto(k *Key) bool { return k.Auto != "" && c.Text(k) == "auto" }

// Text is the value of a key in the form that Set reads.
func (c Config) Text(k *Key) string {
	v := c.get(k)
	switch k.Kind {
	case Text, Word:
		return v.text
	case Seed:
		if v.auto {
			return "auto"
		}
		return strconv.FormatUint(v.seed, 10)
	case Whole:
		if n := v.number; n.Given && math.Abs(n.Value) < 1<<63 && n.Value == math.Trunc(n.Value) {
			return strconv.FormatInt(int64(n.Value), 10)
		}
		return v.number.String()
	default:
		return v.number.String()
	}
}

// Set gives the named key the value of a text. An unknown name and a text of the wrong kind are
// errors.
func (c *Config) Set(name, text string) error {
	k := Find(name)
	if k == nil {
		if list := below(name + "."); len(list) > 0 {
			return fmt.Errorf("%s holds several keys (%s); give one of them", name, strings.Join(list, ", "))
		}
		return fmt.Errorf("unknown key %q; %s", name, Near(name))
	}
	v, err := k.parse(text)
	if err != nil {
		return err
	}
	c.put(k, v)
	return nil
}

func (k *Key) parse(text string) (v value, err error) {
	switch {
	case k.Kind == Text || k.Kind == Word:
		v.text = text
	case k.Kind == Seed && k.Auto != "" && text == "auto":
		v.auto = true
	case k.Kind == Seed:
		if v.seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			err = fmt.Errorf("%q is not a whole number from 0 to 2^64-1", text)
		}
	case k.Auto != "":
		v.number, err = parseNumber(text)
	case k.Kind == Whole:
		n, failed := strconv.Atoi(text)
		if failed != nil || n != int(float64(n)) {
			return v, fmt.Errorf("%q is not a whole number", text)
		}
		v.number = Fixed(float64(n))
	default:
		v.number.Given = true
		v.number.Value, err = parseFloat(text)
	}
	return v, err
}

// Choose replaces every auto of the given keys that has an effect and a rule, in the given order. A
// rule may depend on earlier choices. A choice may give an effect to a key that comes before it, as
// a choice of items does to counts. Such keys are chosen in a second pass. Without facts, which may
// be nil, keys that need facts stay open.
func (c Config) Choose(keys []*Key, f *Facts) Config {
	for range 2 {
		for _, k := range keys {
			c.choose(k, f)
		}
	}
	return c
}

// choose replaces the auto of one key, if the key has an effect and a rule.
func (c *Config) choose(k *Key, f *Facts) {
	if !c.IsAuto(k) || k.When != nil && !k.When(*c) {
		return
	}
	switch {
	case k.ChooseNumber != nil:
		c.put(k, value{number: k.ChooseNumber(*c, f)})
	case k.ChooseWord != nil:
		c.put(k, value{text: k.ChooseWord(*c, f)})
	}
}

// Problem is an invalid value of a key, with the reason.
type Problem struct {
	Key    *Key
	Reason string
}

// Error names the key and the reason.
func (p Problem) Error() string { return p.Key.Name + ": " + p.Reason }

// Problems checks every key by its declaration: kind and range first, then each value beside the
// others. They come in the order of [Keys].
func (c Config) Problems() []Problem {
	var list []Problem
	for _, k := range Keys() {
		reason := c.outside(k)
		if reason == "" && k.Check != nil {
			reason = k.Check(c)
		}
		if reason == "" {
			continue
		}
		if list = append(list, Problem{k, reason}); k.Blocking {
			break
		}
	}
	return list
}

// fewWords limits the values that an error lists beside the value that was probably meant.
const fewWords = 8

// outside says why a value is outside its kind or range; "" if it is not.
func (c Config) outside(k *Key) string {
	switch k.Kind {
	case Word:
		words := k.Words
		if k.Auto != "" {
			words = append([]string{"auto"}, words...)
		}
		if k.Only != nil {
			words = k.Only(c)
		}
		if text := c.Text(k); !slices.Contains(words, text) {
			list, hint := strings.Join(words, ", "), meant(text, words)
			if hint != "" && len(words) > fewWords {
				list = fmt.Sprintf("the %d values of %s", len(words), k.Name)
			}
			return fmt.Sprintf("%q is not one of %s", text, list) + hint
		}
	case Whole:
		n := c.number(k)
		if n.Given && (!k.Range.Contains(n.Value) || n.Value != math.Trunc(n.Value)) {
			if math.IsInf(k.Range.High, 1) {
				return fmt.Sprintf("%v is not at least %v", n.Value, k.Range.Low)
			}
			return fmt.Sprintf("%v is not a whole number from %v to %v", n.Value, int(k.Range.Low), int(k.Range.High))
		}
	case Real:
		if n := c.number(k); n.Given && !k.Range.Contains(n.Value) {
			return k.Range.refuse(n.Value)
		}
	case Text, Seed:
	}
	return ""
}

// InRange reports whether the value of a key is of its kind and range.
func (c Config) InRange(k *Key) bool { return c.outside(k) == "" }

// Error is a configuration that cannot be run, by itself or with its data.
type Error struct{ error }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.error }

// Usage marks the error as a wrong call and not as a failure.
func (e *Error) Usage() bool { return true }

// Errorf returns an [Error] of a formatted message.
func Errorf(format string, args ...any) error { return &Error{fmt.Errorf(format, args...)} }

// Wrap makes an [Error] of an error; nil for nil.
func Wrap(err error) error {
	if err == nil {
		return nil
	}
	return &Error{err}
}

// Refuse joins problems into an [Error], one a line; nil for none.
func Refuse(list []Problem) error {
	return Wrap(errors.Join(lists.Map(list, func(p Problem) error { return p })...))
}
