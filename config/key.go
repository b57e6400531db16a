package config

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Kind is what a key holds.
type Kind uint8

// The kinds of keys.
const (
	Text  Kind = iota // any text: a path, a name
	Word              // one of several words
	Real              // a number
	Whole             // a whole number
	Seed              // a whole number from 0 to 2^64-1
)

// Scope is who goes by a key.
type Scope uint8

const (
	// Agreed keys are part of what the parties of a deployment agree on.
	Agreed Scope = iota
	// Simulated keys mean something in a simulation alone: who is lost, the connections,
	// what a run is compared with. In a deployment these things happen by themselves, or
	// nobody can know them.
	Simulated
	// Deployed keys mean something in a deployment alone. Its parties agree on them.
	Deployed
	// Own keys are everybody's own: where data lie, how many goroutines compute.
	Own
)

// Key is the declaration of a setting: the only place that says what it is called, what
// it may be and what it means. Flags, help, checks, config.yaml, the page of the
// documentation and the agreement of a deployment's parties follow from it.
type Key struct {
	Name    string // with a dot between section and rest
	Kind    Kind
	Default string // as [Config.Set] reads it
	// Auto says in a few words how the value is found where it is "auto"; "" where
	// there is no auto.
	Auto  string
	Words []string // of a Word: all that some algorithm takes, auto excepted
	Range Range    // of a number
	Unit  string   // of a number, such as "stars" or "Mbit/s"; "" of a plain one
	Scope Scope
	Flag  bool // it has a flag of its own; any key has --set
	// Switch makes the flag one without a value, which means yes. The words are yes and no.
	Switch bool
	// Blocking: the checks of other keys depend on this key, so a problem with it is the only one reported.
	Blocking bool
	// Placeholder stands for the value in --help, in capitals.
	Placeholder string
	Help        string // a sentence

	// When reports whether the value has an effect with the others; nil: always. Which
	// keys an algorithm has at all is declared there.
	When func(Config) bool
	// Check says what is wrong with a value that is of the right kind and range, as it
	// stands beside the others; "" where nothing is. It may be nil.
	Check func(Config) string
	// Only are the words that go with the others' values, auto included; nil: all.
	Only func(Config) []string
	// ChooseNumber and ChooseWord are the value for auto; Auto, or "auto", where it cannot
	// be known yet. Both are nil where something else chooses: a rate by the noise.
	ChooseNumber func(Config, *Facts) Number
	ChooseWord   func(Config, *Facts) string
}

// Facts are what is public about data, and may decide what auto stands for.
type Facts struct {
	Name         string
	Users, Items int
	Min, Max     float64 // of the rating scale, in stars
	Shift        float64 // what was added to ratings, Min and Max for the scale to start at 0 (dataset.Set.Raised)
	Examples     int     // how many ratings there are where the data are at hand; 0 in a deployment. It may be used only where that is public
	Columns      int     // public features of a user, where the data have them
	Published    int     // how many ratings there are, if that is published of the set of this name; else 0
}

// NumberKey is a key that holds a number.
type NumberKey struct{ *Key }

// Of is its value.
func (k NumberKey) Of(c Config) Number { return c.number(k.Key) }

// Value is the number; 0 for auto.
func (k NumberKey) Value(c Config) float64 { return k.Of(c).Value }

// Int is the number as an integer; 0 for auto.
func (k NumberKey) Int(c Config) int { return int(k.Of(c).Value) }

// Chosen is the number, or what auto stands for as far as it can be known without facts.
func (k NumberKey) Chosen(c Config) float64 {
	if n := k.Of(c); n.Given || k.ChooseNumber == nil {
		return n.Value
	}
	return k.ChooseNumber(c, nil).Value
}

// Or is the number, or def for auto.
func (k NumberKey) Or(c Config, def float64) float64 { return k.Of(c).Or(def) }

// Set gives it a number.
func (k NumberKey) Set(c *Config, v float64) { c.put(k.Key, value{number: Fixed(v)}) }

// SetAuto leaves it open again.
func (k NumberKey) SetAuto(c *Config) { c.put(k.Key, value{}) }

// TextKey is a key that holds a text or a word.
type TextKey struct{ *Key }

// Of is its value.
func (k TextKey) Of(c Config) string { return c.get(k.Key).text }

// Chosen is the word, or what auto stands for as far as it can be known without facts.
func (k TextKey) Chosen(c Config) string {
	if !c.IsAuto(k.Key) || k.ChooseWord == nil {
		return k.Of(c)
	}
	return k.ChooseWord(c, nil)
}

// Is reports whether it is that word.
func (k TextKey) Is(c Config, word string) bool { return k.Of(c) == word }

// Set gives it a text.
func (k TextKey) Set(c *Config, text string) { c.put(k.Key, value{text: text}) }

// Bind gives the key a text together with what the text stands for in this configuration. A copy of the
// configuration keeps both. Another text for the key drops the attachment.
func (k TextKey) Bind(c *Config, text string, to any) {
	c.put(k.Key, value{text: text, bound: &bound{to}})
}

// Bound returns what [TextKey.Bind] attached to the key's text; nil without an attachment.
func (k TextKey) Bound(c Config) any {
	if b := c.get(k.Key).bound; b != nil {
		return b.to
	}
	return nil
}

// SeedKey is a key that holds a seed.
type SeedKey struct{ *Key }

// Of is its value; 0 for auto.
func (k SeedKey) Of(c Config) uint64 { return c.get(k.Key).seed }

// Or is the seed, or def for auto.
func (k SeedKey) Or(c Config, def uint64) uint64 {
	if v := c.get(k.Key); !v.auto {
		return v.seed
	}
	return def
}

// Set gives it a seed.
func (k SeedKey) Set(c *Config, v uint64) { c.put(k.Key, value{seed: v}) }

// declared are all keys, in the order of their declaration.
var declared []*Key

// DeclareNumber declares a key of kind Real or Whole. Declarations are variables of
// packages; one that contradicts itself, or another, panics at the start.
func DeclareNumber(k Key) NumberKey { return NumberKey{declare(&k, k.Kind == Real || k.Kind == Whole)} }

// DeclareText declares a key of kind Text or Word.
func DeclareText(k Key) TextKey { return TextKey{declare(&k, k.Kind == Text || k.Kind == Word)} }

// DeclareSeed declares a key of kind Seed.
func DeclareSeed(k Key) SeedKey { return SeedKey{declare(&k, k.Kind == Seed)} }

func declare(k *Key, right bool) *Key {
	bad := func(why string) { panic(fmt.Sprintf("config: key %q: %s", k.Name, why)) }
	switch {
	case !right:
		bad("it is declared as another kind")
	case k.Name == "" || k.Help == "":
		bad("it has no name or no help")
	case slices.ContainsFunc(declared, func(o *Key) bool { return o.Name == k.Name }):
		bad("it is declared twice")
	case k.Kind == Word && len(k.Words) == 0 && k.Only == nil:
		bad("it has no words")
	}
	if _, err := k.parse(k.Default); err != nil {
		bad("its default: " + err.Error())
	}
	declared = append(declared, k)
	return k
}

// Keys lists every key: those without a section first, then section by section, each in
// the order of declaration, the keys of a part of a section together.
func Keys() []*Key {
	var sections []string
	bySection := make(map[string][]*Key)
	for _, k := range declared {
		s := k.Section()
		if _, ok := bySection[s]; !ok && s != "" {
			sections = append(sections, s)
		}
		bySection[s] = append(bySection[s], k)
	}
	all := slices.Clone(bySection[""])
	for _, s := range sections {
		all = append(all, together(s, bySection[s])...)
	}
	return all
}

// together orders the keys of a section: those of a part, as statistics.shares, stand where the first of them was declared.
func together(section string, keys []*Key) []*Key {
	part := func(k *Key) string { return k.Name[:strings.LastIndexByte(k.Name, '.')] }
	out := make([]*Key, 0, len(keys))
	for i, k := range keys {
		p := part(k)
		switch {
		case p == section:
			out = append(out, k)
		case !slices.ContainsFunc(keys[:i], func(o *Key) bool { return part(o) == p }):
			out = append(out, slices.DeleteFunc(slices.Clone(keys), func(o *Key) bool { return part(o) != p })...)
		}
	}
	return out
}

// Section is what stands before the first dot of the name; "" where there is none.
func (k *Key) Section() string {
	if i := strings.IndexByte(k.Name, '.'); i >= 0 {
		return k.Name[:i]
	}
	return ""
}

// Find returns the key of a name; nil if there is none.
func Find(name string) *Key {
	i := slices.IndexFunc(declared, func(k *Key) bool { return k.Name == name })
	if i < 0 {
		return nil
	}
	return declared[i]
}

// Range is which numbers are allowed. The zero Range allows all.
type Range struct {
	Low, High           float64
	AboveLow, BelowHigh bool // the end itself is not allowed
}

// Between allows both ends.
func Between(low, high float64) Range { return Range{Low: low, High: high} }

// Below allows the low end, and not the high one.
func Below(low, high float64) Range { return Range{Low: low, High: high, BelowHigh: true} }

// Inside allows neither end.
func Inside(low, high float64) Range {
	return Range{Low: low, High: high, AboveLow: true, BelowHigh: true}
}

// Above allows the high end, and not the low one.
func Above(low, high float64) Range { return Range{Low: low, High: high, AboveLow: true} }

// Positive allows what is above 0 and finite, AtLeast what is finite and not below.
func Positive() Range { return Inside(0, math.Inf(1)) }

// AtLeast allows the low end and all finite numbers above it.
func AtLeast(low float64) Range { return Below(low, math.Inf(1)) }

// Contains reports whether a number is allowed.
func (r Range) Contains(v float64) bool {
	if r == (Range{}) {
		return true
	}
	return (v > r.Low || v == r.Low && !r.AboveLow) && (v < r.High || v == r.High && !r.BelowHigh)
}

// String says which numbers there are, for documentation.
func (r Range) String() string {
	switch {
	case r == (Range{}):
		return "any number"
	case r == Positive():
		return "above 0"
	case math.IsInf(r.High, 1):
		return fmt.Sprintf("at least %v", r.Low)
	}
	low, high := "from", "to"
	if r.AboveLow {
		low = "above"
	}
	if r.BelowHigh {
		high = "to below"
	}
	return fmt.Sprintf("%s %v %s %v", low, r.Low, high, r.High)
}

// refuse says what is wrong with a number that is outside.
func (r Range) refuse(v float64) string {
	low, high := "at least", "at most"
	if r.AboveLow {
		low = "above"
	}
	if r.BelowHigh {
		high = "below"
	}
	switch {
	case r == Positive():
		return fmt.Sprintf("%v is not positive and finite", v)
	case !r.AboveLow && !r.BelowHigh:
		return fmt.Sprintf("%v is outside %v to %v", v, r.Low, r.High)
	default:
		return fmt.Sprintf("%v is outside; it must be %s %v and %s %v", v, low, r.Low, high, r.High)
	}
}
