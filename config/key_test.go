package config_test

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
)

// A declaration that contradicts itself, or another, is a mistake of the program.
func TestContradictingDeclarationsPanic(t *testing.T) {
	for why, declare := range map[string]func(){
		"another kind": func() {
			config.DeclareNumber(config.Key{Name: "made-up", Kind: config.Word, Words: []string{"a"}, Default: "a", Help: "Help."})
		},
		"no name":  func() { config.DeclareText(config.Key{Help: "Help."}) },
		"no help":  func() { config.DeclareText(config.Key{Name: "made-up"}) },
		"twice":    func() { config.DeclareText(config.Key{Name: "epsilon", Help: "Help."}) },
		"no words": func() { config.DeclareText(config.Key{Name: "made-up", Kind: config.Word, Help: "Help."}) },
		"default: ": func() {
			config.DeclareNumber(config.Key{Name: "made-up", Kind: config.Real, Default: "auto", Help: "Help."})
		},
		"kind": func() { config.DeclareSeed(config.Key{Name: "made-up", Help: "Help."}) },
	} {
		before := len(config.Keys())
		func() {
			defer func() {
				if said, ok := recover().(string); !ok || !strings.Contains(said, why) {
					t.Errorf("%s: it panicked with %q", why, said)
				}
			}()
			declare()
		}()
		if len(config.Keys()) != before || config.Find("made-up") != nil {
			t.Errorf("%s: it was declared all the same", why)
		}
	}
}

// The zero value has the defaults, and a change in a copy stays there.
func TestConfigIsAValue(t *testing.T) {
	var first config.Config
	algorithm.Epsilon.Set(&first, 3)
	second := first
	algorithm.Epsilon.Set(&second, 4)
	algorithm.SplitTest.Set(&second, 0.2)
	if algorithm.Epsilon.Value(first) != 3 || algorithm.SplitTest.Value(first) != 0.1 {
		t.Error("a copy changed what it was copied from")
	}
	if diff := cmp.Diff([]string{"epsilon", "split.test"}, names(second.Differs(first))); diff != "" {
		t.Errorf("what differs (-want +got):\n%s", diff)
	}
	second.Take(algorithm.Epsilon.Key, first)
	second.Reset(algorithm.SplitTest.Key)
	if !second.Equal(first) || first.Equal(config.Config{}) || !second.IsDefault(algorithm.SplitTest.Key) {
		t.Errorf("after taking and resetting it is\n%s", second.YAML())
	}
	algorithm.Epsilon.SetAuto(&first)
	if !first.Equal(config.Config{}) || !first.IsAuto(algorithm.Epsilon.Key) {
		t.Error("auto that was set is not the auto of the default")
	}
}

// Choose replaces the values that are open, have an effect and were asked for. Choices that need
// facts wait for them, and given values stay.
func TestChoose(t *testing.T) {
	var c config.Config
	algorithm.Parties.Set(&c, 3)
	keys := []*config.Key{algorithm.Parties.Key, algorithm.RatingMax.Key, algorithm.Noise.Key, algorithm.Positive.Key}
	blind := c.Choose(keys, nil)
	if algorithm.Parties.Int(blind) != 3 || !algorithm.Noise.Is(blind, "split") || !blind.IsAuto(algorithm.RatingMax.Key) {
		t.Errorf("without facts it chose\n%s", blind.YAML())
	}
	seeing := c.Choose(keys, &config.Facts{Max: 6})
	if algorithm.RatingMax.Of(seeing) != config.Fixed(6) || !seeing.IsAuto(algorithm.Positive.Key) || !seeing.IsAuto(algorithm.Rank.Key) {
		t.Errorf("with facts it chose\n%s", seeing.YAML())
	}
	if !c.IsAuto(algorithm.Noise.Key) {
		t.Error("choosing changed what it was asked of")
	}
}

// Sections are indented, and so are sections within a section.
func TestYAMLSections(t *testing.T) {
	b := string(config.Config{}.YAML())
	for _, part := range []string{
		"algorithm: ssp-c\n", "\nsplit:\n  test: 0.1\n  validation: 0\n", "\n  shares:\n    gramian: auto\n", "\nencoder:\n  dim: 0\n", "\nname: \"\"\n",
	} {
		if strings.Count(b, part) != 1 {
			t.Errorf("%q is there %d times, want once, in\n%s", part, strings.Count(b, part), b)
		}
	}
}

// Whole numbers too large for a float64 to tell apart are refused; the others are returned.
func TestLargeWholeNumbers(t *testing.T) {
	var c config.Config
	for _, text := range []string{"9007199254740991", "9007199254740992", "1000000000000000000"} {
		if err := c.Set("item-steps", text); err != nil || c.Text(config.Find("item-steps")) != text {
			t.Errorf("%s became %s, %v", text, c.Text(config.Find("item-steps")), err)
		}
	}
	if err := c.Set("item-steps", "9007199254740993"); err == nil {
		t.Error("a number that is rounded was taken")
	}
}

func TestRange(t *testing.T) {
	for want, r := range map[string]config.Range{
		"any number": {}, "above 0": config.Positive(), "at least 2": config.AtLeast(2), "from 1 to 3": config.Between(1, 3),
		"from 0 to below 1": config.Below(0, 1), "above 0 to below 1": config.Inside(0, 1), "above 0 to 1": config.Above(0, 1),
	} {
		if r.String() != want {
			t.Errorf("%v, want %s", r, want)
		}
	}
	if got := config.Between(1, math.Inf(1)).String(); got != "at least 1" {
		t.Errorf("a range without end is %s", got)
	}
}

// A key that is reset has its default again, in this configuration and not in a copy of it.
func TestReset(t *testing.T) {
	var c config.Config
	c.Reset(algorithm.SplitTest.Key) // it was not set
	algorithm.SplitTest.Set(&c, 0.4)
	kept := c
	c.Reset(algorithm.SplitTest.Key)
	if !c.IsDefault(algorithm.SplitTest.Key) || !c.Equal(config.Config{}) {
		t.Errorf("split.test is %v after a reset", algorithm.SplitTest.Value(c))
	}
	if got := algorithm.SplitTest.Value(kept); got != 0.4 {
		t.Errorf("split.test is %v in the copy, want 0.4", got)
	}
}
