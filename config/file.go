package config

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/typo"
)

// Setting gives one key a value. Origin is its place, for messages: "--epsilon", or "FILE:LINE".
type Setting struct {
	Key, Value, Origin string
}

// Join returns settings as KEY=VALUE, with spaces between.
func Join(settings []Setting) string {
	return strings.Join(lists.Map(settings, func(s Setting) string { return s.Key + "=" + s.Value }), " ")
}

// Twice is the error of a key that has two values: it names both, and where each came from.
func Twice(a, b Setting) error {
	return keyed{a.Key, fmt.Errorf("%s is %q by %s and %q by %s; keep one of the two", a.Key, a.Value, a.Origin, b.Value, b.Origin)}
}

// Over puts settings over a base whose values they may replace, in the place of the replaced ones, or behind the base. It also
// returns the pairs of settings that give a key two values: the base's setting, and its replacement.
func Over(base, settings []Setting) (all []Setting, replaced [][2]Setting) {
	placed := make(map[string]bool)
	place := func(key string) {
		for _, s := range settings {
			if s.Key == key && !placed[key] {
				all = append(all, s)
			}
		}
		placed[key] = true
	}
	for _, b := range base {
		i := slices.IndexFunc(settings, func(s Setting) bool { return s.Key == b.Key })
		if i < 0 {
			all = append(all, b)
			continue
		}
		if !alike(b, settings[i]) {
			replaced = append(replaced, [2]Setting{b, settings[i]})
		}
		place(b.Key)
	}
	for _, s := range settings {
		place(s.Key)
	}
	return all, replaced
}

// alike reports whether two settings of a key give it one value.
func alike(a, b Setting) bool {
	var c, d Config
	return a.Value == b.Value || c.Set(a.Key, a.Value) == nil && d.Set(b.Key, b.Value) == nil && c.Equal(d)
}

// Resolve applies settings to the defaults and checks the result. Two values for one key are an error ([Twice]). The
// error lists every problem, one a line, each with the place that caused it.
func Resolve(settings []Setting) (Config, error) { return Config{}.With(settings) }

// With is [Resolve] with c in place of the defaults.
func (c Config) With(settings []Setting) (Config, error) {
	said := make(map[string]Setting)
	var errs []error
	for _, s := range settings {
		if err := c.Set(s.Key, s.Value); err != nil {
			errs = append(errs, keyed{s.Key, fmt.Errorf("%s: %w", s.Origin, err)})
		} else if before, again := said[s.Key]; again && !alike(before, s) {
			errs = append(errs, Twice(before, s))
		}
		said[s.Key] = s
	}
	if len(errs) > 0 {
		return c, &Error{errors.Join(errs...)}
	}
	for _, p := range c.Problems() {
		errs = append(errs, keyed{p.Key.Name, fmt.Errorf("%s: %s", cmp.Or(said[p.Key.Name].Origin, p.Key.Name), p.Reason)})
	}
	return c, Wrap(errors.Join(errs...))
}

// keyed is an error with the name of the key that it is about.
type keyed struct {
	key string
	error
}

func (e keyed) Unwrap() error { return e.error }

// KeysOf returns the names of the keys that an error is about, each once, in the order of the message.
// Settings that [Resolve] refuses and a [Problem] name their keys.
func KeysOf(err error) []string {
	var names []string
	add := func(list ...string) {
		for _, name := range list {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	switch e := err.(type) {
	case keyed:
		add(e.key)
	case Problem:
		add(e.Key.Name)
	case interface{ Unwrap() []error }:
		for _, x := range e.Unwrap() {
			add(KeysOf(x)...)
		}
	case interface{ Unwrap() error }:
		add(KeysOf(e.Unwrap())...)
	}
	return names
}

// WithMap is [Config.With] of keys and their values. A problem's place is the name of its key.
func (c Config) WithMap(values map[string]string) (Config, error) {
	list := lists.Map(slices.Sorted(maps.Keys(values)), func(key string) Setting { return Setting{Key: key, Value: values[key], Origin: key} })
	return c.With(list)
}

// Near says which keys have names like a mistyped one, three at most.
func Near(name string) string {
	if list := similar(name); len(list) > 0 {
		return "keys with similar names: " + strings.Join(list, ", ")
	}
	return "no key has a similar name"
}

// similar returns the names of the keys that resemble a mistyped name, the most similar first, three at most. The first or
// last part of a dotted name counts alone where it is nearer: model.rank is near rank, and epsilon.value is near epsilon.
func similar(name string) []string {
	const most, unlike = 3, 1000
	typed := strings.ToLower(name)
	first, _, _ := strings.Cut(typed, ".")
	last := typed[strings.LastIndexByte(typed, '.')+1:]
	far := func(key string) int {
		part := func(text string) int {
			if d := distance(text, key); d <= max(1, len(text)/3) {
				return 2 * d
			}
			return unlike
		}
		return min(part(typed), part(first)+1, part(last)+1)
	}
	list := slices.DeleteFunc(below(""), func(key string) bool { return far(key) >= unlike })
	slices.SortStableFunc(list, func(a, b string) int { return far(a) - far(b) })
	return list[:min(len(list), most)]
}

// meant asks for the word that a mistyped word resembles; "" if none does.
func meant(typed string, words []string) string {
	if len(words) == 0 {
		return ""
	}
	typed = strings.ToLower(typed)
	nearest := slices.MinFunc(words, func(a, b string) int { return typo.Distance(typed, a) - typo.Distance(typed, b) })
	if typo.Distance(typed, nearest) > max(1, len(nearest)/3) {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", nearest)
}

func below(prefix string) []string {
	return slices.DeleteFunc(lists.Map(Keys(), func(k *Key) string { return k.Name }), func(name string) bool { return !strings.HasPrefix(name, prefix) })
}

// distance is the edit distance. If that is nearer, only the last part of a dotted key counts. The
// beginning of a key counts as one edit, and a key with something behind it as two.
func distance(a, b string) int {
	d := typo.Distance(a, b)
	switch {
	case strings.HasPrefix(b, a):
		d = min(d, 1)
	case len(b) > 2 && strings.HasPrefix(a, b):
		d = min(d, 2)
	}
	if i := strings.LastIndexByte(b, '.'); i >= 0 {
		d = min(d, distance(a, b[i+1:])+1)
	}
	return d
}

// Assignments reads settings of the form KEY=VALUE from a flag that may be repeated. Another form
// is an [Error].
func Assignments(flag string, texts []string) ([]Setting, error) {
	list := make([]Setting, len(texts))
	for i, text := range texts {
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, Errorf("%s %s: KEY=VALUE is needed", flag, text)
		}
		list[i] = Setting{Key: key, Value: value, Origin: flag + " " + key}
	}
	return list, nil
}

// ReadFile reads the settings of an experiment file: YAML with the names of keys,
// each at most once.
func ReadFile(path string) ([]Setting, error) { return readFile(path, false) }

// ReadLists is [ReadFile] for a file in which a key may have a list of values. Each element becomes
// a setting, in the order of the list.
func ReadLists(path string) ([]Setting, error) { return readFile(path, true) }

func readFile(path string, lists bool) ([]Setting, error) {
	b, err := os.ReadFile(path)
	if _, failed := os.Stat(filepath.Join(path, "config.yaml")); err != nil && failed == nil {
		return nil, Errorf("%s is the folder of a run and no experiment file: --from %s repeats it, and %s is its experiment file", path, path, filepath.Join(path, "config.yaml"))
	}
	if err != nil {
		return nil, err
	}
	settings, err := parse(path, b, lists)
	if err != nil {
		return nil, &Error{err}
	}
	return settings, nil
}

func parse(path string, b []byte, lists bool) ([]Setting, error) {
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
		if settings, err = leaves(settings, path, "", doc.Body, lists); err != nil {
			return nil, err
		}
	}
	return settings, nil
}

// leaves collects the plain values below a node and, with lists, the values in lists.
func leaves(all []Setting, path, key string, n ast.Node, lists bool) ([]Setting, error) {
	var err error
	switch n := n.(type) {
	case *ast.MappingNode:
		if len(n.Values) == 0 && key != "" {
			return nil, fmt.Errorf("%s: %s: a plain value is needed here", at(path, n), key)
		}
		for _, v := range n.Values {
			if all, err = leaves(all, path, key, v, lists); err != nil {
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
		return leaves(all, path, name, n.Value, lists)
	case *ast.LiteralNode:
		return leaves(all, path, key, n.Value, lists)
	case *ast.StringNode:
		if strings.ContainsRune(n.Value, utf8.RuneError) {
			return nil, fmt.Errorf("%s: %s: the value is not UTF-8; convert the file, or give the value as --set %s=VALUE", at(path, n), key, key)
		}
		all = append(all, Setting{Key: key, Value: n.Value, Origin: at(path, n)})
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		all = append(all, Setting{Key: key, Value: n.GetToken().Value, Origin: at(path, n)})
	case *ast.TagNode:
		text, ok := n.Value.(*ast.StringNode)
		if !ok || n.Start.Value != binaryTag {
			return nil, fmt.Errorf("%s: %s: of tags only %s is known", at(path, n), key, binaryTag)
		}
		b, invalid := base64.StdEncoding.DecodeString(text.Value)
		if invalid != nil {
			return nil, fmt.Errorf("%s: %s: %w", at(path, n), key, invalid)
		}
		all = append(all, Setting{Key: key, Value: string(b), Origin: at(path, n)})
	case *ast.CommentGroupNode:
	case *ast.SequenceNode:
		if !lists {
			return nil, fmt.Errorf("%s: %s: one value is needed here; fedsim sweep takes lists", at(path, n), key)
		}
		for _, v := range n.Values {
			if _, ok := v.(*ast.MappingNode); ok || len(n.Values) == 0 {
				return nil, fmt.Errorf("%s: %s: a list of plain values is needed here", at(path, v), key)
			}
			if all, err = leaves(all, path, key, v, false); err != nil {
				return nil, err
			}
		}
	default:
		return nil, fmt.Errorf("%s: %s: a plain value is needed here", at(path, n), key)
	}
	return all, nil
}

func at(path string, n ast.Node) string { return fmt.Sprintf("%s:%d", path, line(n)) }

func line(n ast.Node) int { return n.GetToken().Position.Line }

// YAML is the configuration as a file that Resolve reads back to the same. It quotes texts that
// YAML might read as another type, which its library does not do for all of them.
func (c Config) YAML() []byte {
	var b []byte
	section := []string{}
	for _, k := range Keys() {
		path := strings.Split(k.Name, ".")
		for depth := range len(path) - 1 {
			if depth >= len(section) || section[depth] != path[depth] {
				b = fmt.Appendf(b, "%s%s:\n", strings.Repeat("  ", depth), path[depth])
				section = append(slices.Clone(section[:min(depth, len(section))]), path[depth])
			}
		}
		section = section[:len(path)-1]
		text := c.Text(k)
		if !utf8.ValidString(text) { // such as the name of a file
			text = binaryTag + " " + base64.StdEncoding.EncodeToString([]byte(text))
		} else if (k.Kind == Text || k.Kind == Word) && (!plain.MatchString(text) || strings.EqualFold(text, "null")) {
			text = strconv.Quote(text)
		}
		b = fmt.Appendf(b, "%s%s: %s\n", strings.Repeat("  ", len(path)-1), path[len(path)-1], text)
	}
	return b
}

// binaryTag marks base64 of a text that is not UTF-8.
const binaryTag = "!!binary"

// plain matches texts that need no quotes: they start with a letter or a path.
var plain = regexp.MustCompile(`^[A-Za-z./_-][A-Za-z0-9./_:-]*[A-Za-z0-9/]$`)
