package experiment

import (
	"math"
	"strings"
	"testing"
)

func TestDefaultsAreValid(t *testing.T) {
	c, err := Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	if c != Defaults() {
		t.Errorf("nothing said resolves to %+v", c)
	}
	if w := c.Warnings(); len(w) != 0 {
		t.Errorf("the defaults warn: %v", w)
	}
	if !c.Private() {
		t.Error("the defaults promise no privacy")
	}
}

// refusals change one key of the defaults (or some, for what depends on them) to
// what must be refused; the reason says what would be right.
var refusals = []struct {
	settings string // key=value, with spaces between
	key      string // that the message is about
	reason   string
}{
	{"algorithm=als", "algorithm", "lfl-sgdmf, fmf-lfl, sgd-mf"},
	{"epsilon=0", "epsilon", "positive, or inf for no noise"},
	{"epsilon=-1", "epsilon", "positive, or inf for no noise"},
	{"algorithm=fmf-lfl epsilon=1", "epsilon", "use inf, or another algorithm"},
	{"algorithm=sgd-mf epsilon=1", "epsilon", "use inf, or another algorithm"},
	{"noise=split epsilon=inf", "noise", "use none, or a finite epsilon"},
	{"noise=none epsilon=1", "noise", "epsilon inf"},
	{"noise=laplace", "noise", "auto, split, replace, none"},
	{"noise-draw=server", "noise-draw", "sum, client"},
	{"delta=0", "delta", "above 0 and below 1"},
	{"delta=1", "delta", "above 0 and below 1"},
	{"delta=inf", "delta", "above 0 and below 1"},
	{"unit=rating", "unit", "privacy is stated per user"},
	{"unit=item", "unit", "use user"},
	{"accountant=exact", "accountant", "rdp, gdp-skellam or best"},
	{"accountant=moments", "accountant", "rdp, gdp-skellam, best"},
	{"secagg=quantum", "secagg", "ideal"},
	{"rounds=0", "rounds", "1 to 1000000"},
	{"rounds=1000001", "rounds", "1 to 1000000"},
	{"rank=0", "rank", "whole number from 1 to 1024"},
	{"rank=1.5", "rank", "whole number from 1 to 1024"},
	{"rank=1025", "rank", "whole number from 1 to 1024"},
	{"rank=inf", "rank", "whole number from 1 to 1024"},
	{"contribution=two", "contribution", "one-rating, all-ratings"},
	{"clip-norm=0", "clip-norm", "positive"},
	{"dropout=1", "dropout", "at least 0 and below 1"},
	{"dropout=-0.1", "dropout", "at least 0 and below 1"},
	{"dropout-at=consistency", "dropout-at", "advertise, share, masked-input, unmask, any"},
	{"dropout-at=late", "dropout-at", "advertise, share, masked-input, unmask, any"},
	{"tolerance=1", "tolerance", "at least 0 and below 1"},
	{"tolerance=-1", "tolerance", "at least 0 and below 1"},
	{"colluders=1", "colluders", "at least 0 and below 1"},
	{"leave=1.1", "leave", "0 to 1"},
	{"away=-0.1", "away", "0 to 1"},
	{"away-rounds=0", "away-rounds", "at least 1"},
	{"model.learning-rate=0", "model.learning-rate", "positive and finite"},
	{"model.learning-rate=inf", "model.learning-rate", "positive and finite"},
	{"model.start-mean=-1", "model.start-mean", "positive and finite"},
	{"model.start-spread=1.1", "model.start-spread", "0 to 1"},
	{"model.fit-steps=-1", "model.fit-steps", "negative"},
	{"model.fit-ridge=-1", "model.fit-ridge", "negative"},
	{"model.epochs=0", "model.epochs", "at least 1"},
	{"split.test=0", "split.test", "above 0 and below 1"},
	{"split.test=1", "split.test", "above 0 and below 1"},
	{"split.validation=1", "split.validation", "at least 0 and below 1"},
	{"network.up-mbps=0", "network.up-mbps", "positive and finite"},
	{"network.down-mbps=-1", "network.down-mbps", "positive and finite"},
	{"network.stage-timeout-s=0", "network.stage-timeout-s", "positive and finite"},
	{"network.latency-ms=-1", "network.latency-ms", "at least 0"},
	{"network.compute-ms=-1", "network.compute-ms", "at least 0"},
	{"workers=-1", "workers", "0 takes all cores"},
	{"out=", "out", "folder"},
	{"name=a/b", "name", "slash"},
	{`name=a\b`, "name", "slash"},
	{"name=.hidden", "name", "dot"},
	{"name=..", "name", "dot"},
}

func set(text string) []Setting {
	var list []Setting
	for pair := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(pair, "=")
		list = append(list, Setting{Key: key, Value: value, Origin: "place of " + key})
	}
	return list
}

func TestRefusals(t *testing.T) {
	for _, tt := range refusals {
		_, err := Resolve(set(tt.settings))
		if err == nil {
			t.Errorf("%s: accepted", tt.settings)
			continue
		}
		if got := err.Error(); !strings.HasPrefix(got, "place of "+tt.key+": ") || !strings.Contains(got, tt.reason) || strings.Contains(got, "\n") {
			t.Errorf("%s: %q, want one line about %s with %q", tt.settings, got, tt.key, tt.reason)
		}
	}
}

// Every key that takes a number or one of several words has its refusal above.
func TestRefusalsCoverTheKeys(t *testing.T) {
	covered := map[string]bool{
		// Checked with the data: what they may be depends on it.
		"data": true, "rating-min": true, "rating-max": true,
		// Every number of its kind is as good as another.
		"seed": true,
	}
	for _, tt := range refusals {
		covered[tt.key] = true
	}
	for _, key := range Keys() {
		if !covered[key] {
			t.Errorf("nothing that must be refused is known for %s", key)
		}
	}
}

// The ends of what is allowed.
func TestAccepted(t *testing.T) {
	for _, settings := range []string{
		"dropout=0", "dropout=0.999", "tolerance=0", "colluders=0", "leave=1", "away=1", "rank=1024", "rounds=1000000", "workers=64",
		"epsilon=1e-12", "epsilon=inf", "epsilon=inf noise=none", "noise=none", "algorithm=fmf-lfl", "algorithm=sgd-mf epsilon=inf",
		"delta=1e-300", "model.start-spread=0", "model.fit-steps=0", "model.fit-ridge=0", "split.validation=0.5",
		"network.latency-ms=0", "network.compute-ms=0", "name=a..b", "accountant=best", "accountant=gdp-skellam",
	} {
		if _, err := Resolve(set(settings)); err != nil {
			t.Errorf("%s: %v", settings, err)
		}
	}
}

// All problems come at once, in the order of the keys.
func TestResolveReportsEverything(t *testing.T) {
	_, err := Resolve(set("rounds=0 epsilon=0 delta=2 dropout=7 name=. unit=x"))
	if err == nil {
		t.Fatal("accepted")
	}
	if got := strings.Count(err.Error(), "\n") + 1; got != 6 {
		t.Errorf("%d problems, want 6:\n%v", got, err)
	}
	for range 5 {
		if _, again := Resolve(set("rounds=0 epsilon=0 delta=2 dropout=7 name=. unit=x")); again.Error() != err.Error() {
			t.Errorf("another order:\n%v\nafter\n%v", again, err)
		}
	}
}

func TestWarnings(t *testing.T) {
	for _, tt := range []struct {
		settings string
		want     []string // what each warning says
	}{
		{"dropout=0.3 tolerance=0.3", nil},
		{"dropout=0.31 tolerance=0.3", []string{"dropout 0.31 is above the tolerance 0.3"}},
		{"dropout=0.5 algorithm=sgd-mf", []string{"dropout has no effect with sgd-mf"}},
		{"dropout=0.1 leave=0.1 away=0.2", nil},               // 1 - .9·.9·(1 - .2·3/10) = .239
		{"dropout=0.25 leave=0.2", []string{"a loss of 0.4"}}, // 1 - .75·.8
		{"noise=replace", []string{"the true epsilon is above the claimed one"}},
		{"noise=replace dropout=0.5", []string{"dropout 0.5", "noise replace"}},
	} {
		c, err := Resolve(set(tt.settings))
		if err != nil {
			t.Fatal(err)
		}
		got := c.Warnings()
		if len(got) != len(tt.want) {
			t.Errorf("%s: warnings %q, want %d", tt.settings, got, len(tt.want))
			continue
		}
		for i, w := range tt.want {
			if !strings.Contains(got[i], w) {
				t.Errorf("%s: warning %q, want %q in it", tt.settings, got[i], w)
			}
		}
	}
}

func TestPrivate(t *testing.T) {
	for settings, want := range map[string]bool{
		"": true, "epsilon=3": true, "noise=replace": true, "epsilon=inf": false, "noise=none": false, "algorithm=fmf-lfl": false, "algorithm=sgd-mf": false,
	} {
		c, err := Resolve(set(settings))
		if err != nil {
			t.Fatal(err)
		}
		if c.Private() != want {
			t.Errorf("%q: private is %v", settings, !want)
		}
		if got := !math.IsInf(c.epsilon(), 1); got != want {
			t.Errorf("%q: epsilon is %v", settings, c.epsilon())
		}
	}
}
