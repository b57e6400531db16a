package experiment

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Setting gives one key of a Config a value. Origin is where it was said, for
// messages: "--epsilon", or "FILE:LINE".
type Setting struct {
	Key, Value, Origin string
}

// Resolve applies settings to the defaults, later ones over earlier ones, and
// checks the result. The error lists every problem, one a line, each with the
// place that caused it.
func Resolve(settings []Setting) (Config, error) {
	c := Defaults()
	origins := make(map[string]string)
	var errs []error
	for _, s := range settings {
		if err := c.Set(s.Key, s.Value); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.Origin, err))
		}
		origins[s.Key] = s.Origin
	}
	if len(errs) > 0 {
		return c, &ConfigError{errors.Join(errs...)}
	}
	for _, p := range c.problems() {
		origin := origins[p.key]
		if origin == "" {
			origin = p.key
		}
		errs = append(errs, fmt.Errorf("%s: %s", origin, p.reason))
	}
	if len(errs) > 0 {
		return c, &ConfigError{errors.Join(errs...)}
	}
	return c, nil
}

// ConfigError is a configuration that cannot be run, by itself or with its data.
type ConfigError struct{ error }

// Unwrap returns what is wrong.
func (e *ConfigError) Unwrap() error { return e.error }

// Set gives the key, with dots between levels, the value that the text stands
// for. An unknown key and a text of the wrong kind are errors.
func (c *Config) Set(key, value string) error {
	f, err := field(reflect.ValueOf(c).Elem(), key)
	if err != nil {
		return err
	}
	switch p := f.Addr().Interface().(type) {
	case *string:
		*p = value
	case *Algorithm:
		*p = Algorithm(value)
	case *int:
		*p, err = strconv.Atoi(value)
		if err != nil {
			err = fmt.Errorf("%q is not a whole number", value)
		}
	case *uint64:
		*p, err = strconv.ParseUint(value, 10, 64)
		if err != nil {
			err = fmt.Errorf("%q is not a whole number from 0 to 2^64-1", value)
		}
	case *float64:
		*p, err = parseFloat(value)
	case *Number:
		*p, err = parseNumber(value)
	default:
		err = fmt.Errorf("%s holds several keys (%s); give one of them", key, strings.Join(keys(f, key+"."), ", "))
	}
	return err
}

// Keys lists every key of an experiment.
func Keys() []string { return keys(reflect.ValueOf(Config{}), "") }

func keys(v reflect.Value, prefix string) []string {
	var all []string
	for i := range v.NumField() {
		name := prefix + v.Type().Field(i).Tag.Get("yaml")
		if section(v.Field(i)) {
			all = append(all, keys(v.Field(i), name+".")...)
		} else {
			all = append(all, name)
		}
	}
	return all
}

// section reports whether a field holds keys of its own.
func section(v reflect.Value) bool {
	return v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[Number]()
}

// field finds the field of a key.
func field(v reflect.Value, key string) (reflect.Value, error) {
	for name := range strings.SplitSeq(key, ".") {
		if !section(v) {
			return v, unknown(key)
		}
		i := 0
		for ; i < v.NumField() && v.Type().Field(i).Tag.Get("yaml") != name; i++ {
		}
		if i == v.NumField() {
			return v, unknown(key)
		}
		v = v.Field(i)
	}
	return v, nil
}

// unknown names the keys that look most like the one that does not exist.
func unknown(key string) error {
	all := Keys()
	slices.SortStableFunc(all, func(a, b string) int { return distance(key, a) - distance(key, b) })
	return fmt.Errorf("unknown key %q; the nearest there are: %s", key, strings.Join(all[:3], ", "))
}

// distance is the edit distance; the last part of a dotted key counts alone
// when that is nearer, and the beginning of a key is as good as one edit.
func distance(a, b string) int {
	d := edits(a, b)
	if strings.HasPrefix(b, a) {
		d = min(d, 1)
	}
	if i := strings.LastIndexByte(b, '.'); i >= 0 {
		d = min(d, distance(a, b[i+1:])+1)
	}
	return d
}

func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0]++
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// ReadFile reads the settings of an experiment file: YAML with the keys of
// Config, each at most once.
func ReadFile(path string) ([]Setting, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	settings, err := parse(path, b)
	if err != nil {
		return nil, &ConfigError{err}
	}
	return settings, nil
}

func parse(path string, b []byte) ([]Setting, error) {
	b = bytes.TrimPrefix(b, []byte("\ufeff")) // a byte order mark
	file, err := parser.ParseBytes(b, 0)
	if err != nil {
		var at yaml.Error
		if errors.As(err, &at) && at.GetToken() != nil {
			return nil, fmt.Errorf("%s:%d: %s", path, at.GetToken().Position.Line, at.GetMessage())
		}
		return nil, fmt.Errorf("%s:1: %w", path, err)
	}
	var settings []Setting
	for i, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if i > 0 {
			return nil, fmt.Errorf("%s:%d: a second document; an experiment file holds one", path, line(doc.Body))
		}
		switch doc.Body.(type) {
		case *ast.MappingNode, *ast.MappingValueNode, *ast.CommentGroupNode:
		default:
			return nil, fmt.Errorf("%s:%d: an experiment file holds lines of the form KEY: VALUE", path, line(doc.Body))
		}
		if settings, err = leaves(settings, path, "", doc.Body); err != nil {
			return nil, err
		}
	}
	return settings, nil
}

// leaves collects the plain values below a node.
func leaves(all []Setting, path, key string, n ast.Node) ([]Setting, error) {
	var err error
	switch n := n.(type) {
	case *ast.MappingNode:
		for _, v := range n.Values {
			if all, err = leaves(all, path, key, v); err != nil {
				return nil, err
			}
		}
	case *ast.MappingValueNode:
		name := n.Key.GetToken().Value
		if key != "" {
			name = key + "." + name
		}
		if i := slices.IndexFunc(all, func(s Setting) bool { return s.Key == name }); i >= 0 {
			return nil, fmt.Errorf("%s:%d: %s is given a second time; the first is at %s", path, line(n.Key), name, all[i].Origin)
		}
		return leaves(all, path, name, n.Value)
	case *ast.LiteralNode:
		all = append(all, Setting{Key: key, Value: n.Value.Value, Origin: at(path, n)})
	case *ast.StringNode:
		all = append(all, Setting{Key: key, Value: n.Value, Origin: at(path, n)})
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		all = append(all, Setting{Key: key, Value: n.GetToken().Value, Origin: at(path, n)})
	case *ast.CommentGroupNode:
	default:
		return nil, fmt.Errorf("%s: %s: a plain value is needed here", at(path, n), key)
	}
	return all, nil
}

func at(path string, n ast.Node) string { return fmt.Sprintf("%s:%d", path, line(n)) }

func line(n ast.Node) int { return n.GetToken().Position.Line }

// YAML is the experiment as a file that Resolve reads back to the same.
func (c Config) YAML() []byte { return appendYAML(nil, reflect.ValueOf(c), "") }

// appendYAML writes the fields of a section. Texts that YAML might take for
// something else are quoted, which its library does not do for all of them.
func appendYAML(b []byte, v reflect.Value, indent string) []byte {
	for i := range v.NumField() {
		f := v.Field(i)
		b = append(b, indent+v.Type().Field(i).Tag.Get("yaml")+":"...)
		if section(f) {
			b = appendYAML(append(b, '\n'), f, indent+"  ")
			continue
		}
		text := fmt.Sprint(f.Interface())
		if f.Kind() == reflect.String && (!plain.MatchString(text) || strings.EqualFold(text, "null")) {
			text = strconv.Quote(text)
		}
		b = append(append(append(b, ' '), text...), '\n')
	}
	return b
}

// plain texts need no quotes: they start with a letter or a path.
var plain = regexp.MustCompile(`^[A-Za-z./_-][A-Za-z0-9./_:-]*[A-Za-z0-9/]$`)
