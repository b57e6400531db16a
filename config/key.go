package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// Kind is the type of a key's value.
type Kind uint8

// These are the kinds of keys.
const (
	Text  Kind = iota // any text: a path, a name
	Word              // one of several words
	Real              // a number
	Whole             // a whole number
	Seed              // a whole number from 0 to 2^64-1
)

// Scope says which parties a key concerns.
type Scope uint8

const (
	// Agreed keys are part of the agreement between the parties of a deployment.
	Agreed Scope = iota
	// Simulated keys have a meaning only in a simulation: dropouts, the connections, the baselines
	// of a run. In a deployment these happen by themselves, or no party can know them.
	Simulated
	// Deployed keys have a meaning only in a deployment. Its parties agree on them.
	Deployed
	// Own keys are each party's own: the place of its data, the number of goroutines.
	Own
)

// Key is the declaration of a setting: the only place for its name, range and meaning. Flags, help,
// checks, config.yaml, the page of the documentation and the agreement of a deployment's parties
// follow from it.
type Key struct {
	Name    string // with a dot between section and rest
	Kind    Kind
	Default string // in the form that [Config.Set] reads
	// DefaultBy returns the default of a Text or Word beside the others' values; nil: Default. Default is beside no values.
	DefaultBy func(Config) string
	// Auto says in a few words how a value is found for "auto"; "" if auto is not allowed.
	Auto  string
	Words []string // of a Word: all words that some algorithm takes, except auto
	Range Range    // of a number
	Unit  string   // of a number, such as "stars" or "Mbit/s"; "" without a unit
	Scope Scope
	Flag  bool // the key has a flag of its own; any key has --set
	// Switch makes the flag one without a value, which means yes. The words are yes and no.
	Switch bool
	// Blocking means that the checks of other keys depend on this key, so a problem with it is the
	// only one reported.
	Blocking bool
	// Placeholder stands for the value in --help, in capitals.
	Placeholder string
	Help        string // a sentence

	// When reports whether the value has an effect with the others; nil: always. Algorithms declare
	// which keys they have at all.
	When func(Config) bool
	// Check says why a value of the right kind and range is wrong beside the others; "" if it is
	// not. It may be nil.
	Check func(Config) string
	// Only returns the words that are allowed with the others' values, auto included; nil: all.
	Only func(Config) []string
	// ChooseNumber and ChooseWord return the value for auto, or Auto and "auto" if it cannot be
	// known yet. Both are nil if something else chooses: a rate by the noise.
	ChooseNumber func(Config, *Facts) Number
	ChooseWord   func(Config, *Facts) string
}

// Facts holds public properties of data. They may decide the value of auto.
type Facts struct {
	Name         string
	Users, Items int
	Min, Max     float64 // of the rating scale, in stars
	Shift        float64 // added to ratings, Min and Max so that the scale starts at 0 (dataset.Set.Raised)
	Examples     int     // the number of ratings if the data are at hand; 0 in a deployment. Use it only if it is public
	Columns      int     // public features of a user, if the data have them
	Published    int     // the published number of ratings of the set of this name; else 0
}

// ByFacts makes a rule of auto that waits until the facts are known.
func ByFacts(choose func(Config, *Facts) float64) func(Config, *Facts) Number {
	return func(c Config, f *Facts) Number {
		if f == nil {
			return Auto
		}
		return Fixed(choose(c, f))
	}
}

// Either makes a rule of auto that chooses one of two numbers or words by the other settings alone.
func Either[T Number | string](condition func(Config) bool, then, otherwise T) func(Config, *Facts) T {
	return func(c Config, _ *Facts) T {
		if condition(c) {
			return then
		}
		return otherwise
	}
}

// Against makes a check with one reason, which says what is wrong where the condition holds.
func Against(condition func(Config) bool, reason string) func(Config) string {
	return func(c Config) string {
		if condition(c) {
			return reason
		}
		return ""
	}
}

// NumberKey is a key that holds a number.
type NumberKey struct{ *Key }

// Of returns the key's value.
func (k NumberKey) Of(c Config) Number { return c.number(k.Key) }

// Value is the number; 0 for auto.
func (k NumberKey) Value(c Config) float64 { return k.Of(c).Value }

// Int is the number as an integer; 0 for auto.
func (k NumberKey) Int(c Config) int { return int(k.Of(c).Value) }

// Chosen is the number or, for auto, the choice as far as it is known without facts.
func (k NumberKey) Chosen(c Config) float64 {
	if n := k.Of(c); n.Given || k.ChooseNumber == nil {
		return n.Value
	}
	return k.ChooseNumber(c, nil).Value
}

// Or is the number, or def for auto.
func (k NumberKey) Or(c Config, def float64) float64 { return k.Of(c).Or(def) }

// Set gives the key a number.
func (k NumberKey) Set(c *Config, v float64) { c.put(k.Key, value{number: Fixed(v)}) }

// SetAuto leaves the key open again.
func (k NumberKey) SetAuto(c *Config) { c.put(k.Key, value{}) }

// TextKey is a key that holds a text or a word.
type TextKey struct{ *Key }

// Of returns the key's value.
func (k TextKey) Of(c Config) string { return c.get(k.Key).text }

// Chosen is the word or, for auto, the choice as far as it is known without facts.
func (k TextKey) Chosen(c Config) string {
	if !c.IsAuto(k.Key) || k.ChooseWord == nil {
		return k.Of(c)
	}
	return k.ChooseWord(c, nil)
}

// Is reports whether the value is that word.
func (k TextKey) Is(c Config, word string) bool { return k.Of(c) == word }

// Set gives the key a text.
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

// Of returns the key's value; 0 for auto.
func (k SeedKey) Of(c Config) uint64 { return c.get(k.Key).seed }

// Or is the seed, or def for auto.
func (k SeedKey) Or(c Config, def uint64) uint64 {
	if v := c.get(k.Key); !v.auto {
		return v.seed
	}
	return def
}

// Set gives the key a seed.
func (k SeedKey) Set(c *Config, v uint64) { c.put(k.Key, value{seed: v}) }

// declared lists all keys, in the order of their declaration.
var declared []*Key

// listed holds the list of [Keys] since the last declaration; nil until it is asked for.
var listed atomic.Pointer[[]*Key]

// DeclareNumber declares a key of kind Real or Whole. Declarations are variables of packages. A
// declaration that contradicts itself, or another, panics at the start.
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
	listed.Store(nil)
	return k
}

// Keys lists every key: keys without a section first, then section by section, each in the order of
// declaration. The keys of a part of a section stay together.
func Keys() []*Key {
	list := listed.Load()
	if list == nil {
		list = new(inOrder(declared))
		listed.Store(list)
	}
	return slices.Clone(*list)
}

// inOrder sorts keys into the order of [Keys].
func inOrder(declared []*Key) []*Key {
	first := map[string]int{"": -1} // where each section, and each part of one such as statistics.shares, begins
	begins := func(name string, i int) int {
		if _, ok := first[name]; !ok {
			first[name] = i
		}
		return first[name]
	}
	places := make(map[*Key][2]int, len(declared)) // of the section, and in it
	for i, k := range declared {
		section, at := k.Section(), i
		if section != "" && k.Name[:strings.LastIndexByte(k.Name, '.')] != section {
			at = begins(k.Name[:strings.LastIndexByte(k.Name, '.')], i)
		}
		places[k] = [2]int{begins(section, i), at}
	}
	all := slices.Clone(declared)
	slices.SortStableFunc(all, func(a, b *Key) int {
		x, y := places[a], places[b]
		return slices.Compare(x[:], y[:])
	})
	return all
}

// Section is the name up to the first dot; "" without a dot.
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

// Range says which numbers are allowed. The zero Range allows all.
type Range struct {
	Low, High           float64
	AboveLow, BelowHigh bool // the end itself is not allowed
}

// Between allows both ends.
func Between(low, high float64) Range { return Range{Low: low, High: high} }

// Below allows the low end, and not the high end.
func Below(low, high float64) Range { return Range{Low: low, High: high, BelowHigh: true} }

// Inside allows neither end.
func Inside(low, high float64) Range {
	return Range{Low: low, High: high, AboveLow: true, BelowHigh: true}
}

// Above allows the high end, and not the low end.
func Above(low, high float64) Range { return Range{Low: low, High: high, AboveLow: true} }

// Positive allows finite numbers above 0.
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

// String describes the range, for documentation.
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

// refuse says why a number is outside the range.
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

// Number is a number, or the word auto, which lets fedsim choose. In files and flags inf stands for
// +Inf.
type Number struct {
	Value float64
	Given bool
}

// Auto lets fedsim choose.
var Auto = Number{}

// Fixed is a given number.
func Fixed(v float64) Number { return Number{Value: v, Given: true} }

// Or is the number, or def for auto.
func (n Number) Or(def float64) float64 {
	if n.Given {
		return n.Value
	}
	return def
}

// String returns the form that [Config.Set] reads.
func (n Number) String() string {
	switch {
	case !n.Given:
		return "auto"
	case math.IsInf(n.Value, 1):
		return "inf"
	default:
		return strconv.FormatFloat(n.Value, 'g', -1, 64)
	}
}

// parseNumber reads a number, auto or inf.
func parseNumber(s string) (Number, error) {
	switch s {
	case "auto":
		return Auto, nil
	case "inf", ".inf":
		return Fixed(math.Inf(1)), nil
	}
	v, err := parseFloat(s)
	if err != nil {
		return Auto, fmt.Errorf("%q is not a number, inf or auto", s)
	}
	return Fixed(v), nil
}

// parseFloat reads a finite number.
func parseFloat(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0, fmt.Errorf("%q is not a number", s)
	}
	return v, nil
}

// Values says in a few words what the key may be: its words, its range with the unit, or its kind.
func (k *Key) Values() string {
	switch k.Kind {
	case Word:
		if len(k.Words) == 0 {
			return "name"
		}
		return strings.Join(k.Words, ", ")
	case Text:
		return "text"
	case Seed:
		return "whole number"
	case Whole:
		return "whole number, " + k.Range.String() + k.unit()
	default:
		return k.Range.String() + k.unit()
	}
}

func (k *Key) unit() string {
	if k.Unit == "" {
		return ""
	}
	return " " + k.Unit
}

// Standard says what the value is if none is given: the default, how auto is found, or none.
func (k *Key) Standard() string {
	switch {
	case k.Auto != "":
		return "auto: " + k.Auto
	case k.Default == "":
		return "none"
	default:
		return k.Default
	}
}

// String names the scope.
func (s Scope) String() string {
	return [...]string{Agreed: "agreed", Simulated: "simulation", Deployed: "deployment", Own: "own"}[s]
}
