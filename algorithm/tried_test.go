package algorithm_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim"
	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/effort"
)

// tiny writes ratings of 16 users with genres and moments into a folder.
func tiny(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	random := rand.New(rand.NewPCG(1, 2))
	ratings, movies := "userId,movieId,rating,timestamp\n", "movieId,title,genres\n"
	for u := range 16 {
		for j := range 12 {
			if random.Float64() < 0.6 {
				ratings += fmt.Sprintf("%d,%d,%d,%d\n", u, j, 1+random.IntN(5), 86_400*random.IntN(9)+u)
			}
		}
	}
	for j := range 12 {
		movies += fmt.Sprintf("%d,Film %d (19%d0),%s\n", j, j, 5+j%4, []string{"Drama", "Comedy|Drama", "Action"}[j%3])
	}
	for name, text := range map[string]string{"ratings.csv": ratings, "movies.csv": movies} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// left returns the traces of a configuration, without its settings and without times: the plan, and with run the summary, the rounds and the model.
// An error counts as a trace too.
func left(t *testing.T, data string, settings map[string]string, run bool) string {
	t.Helper()
	o := fedsim.Options{Settings: maps.Clone(settings)}
	o.Settings["data"] = cmp.Or(settings["data"], data)
	if !run {
		plan, err := fedsim.Plan(t.Context(), o)
		if err != nil {
			return err.Error()
		}
		return encoded(t, plan)
	}
	r, err := fedsim.Run(t.Context(), o)
	if err != nil {
		return err.Error()
	}
	s := *r.Summary
	s.Settings, s.Asked, s.PeakMemory = nil, nil, 0
	s.Seconds = map[string]float64{"virtual": s.Seconds["virtual"]}
	return encoded(t, s, r.Metrics)
}

func encoded(t *testing.T, values ...any) string {
	t.Helper()
	b, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Each number and word that is listed for an algorithm is tried: with another value than its default the plan changes, or what a run on 16 users
// measures. Keys of one process (config.Own) and of deployments are no part of a simulation. Unless tests are long, each key is tried in one of the
// algorithms that it is listed for.
func TestKeysChangeARun(t *testing.T) {
	effort.NotShort(t, "a run for each key")
	t.Parallel()
	data, readers := tiny(t), readers()
	for _, name := range algorithm.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := &trial{name: name, switches: switches(algorithm.Find(name).About()), known: map[string]string{}}
			if is := left(t, data, tried(name), true); !strings.HasPrefix(is, "[") {
				t.Fatal(is)
			}
			for k, list := range readers {
				if (slices.Contains(list, name) && effort.Long() || list[len(k.Name)%len(list)] == name) && !changes(t, data, x, k) {
					t.Errorf("%s is listed for %s, and no other value changes a run", k.Name, name)
				}
			}
		})
	}
}

// readers returns the algorithms that each number and word is listed for, and where it has more than one meaning.
func readers() map[*config.Key][]string {
	list := make(map[*config.Key][]string)
	for _, name := range algorithm.Names() {
		for _, k := range algorithm.Find(name).About().Used() {
			if k.Scope != config.Own && k.Scope != config.Deployed && k.Kind != config.Text && k != algorithm.Name.Key && !stated(name, k) {
				list[k] = append(list[k], name)
			}
		}
	}
	return list
}

// together holds, by key, several settings that give an algorithm the effect of the key where no single one does.
var together = map[string][]config.Setting{
	"secagg":               {{Key: "parties", Value: "3"}},
	"model.density":        {{Key: "model.user-rate", Value: "0.1"}},                                                    // auto makes up for it
	"sit-out":              {{Key: "parties", Value: "8"}, {Key: "rounds", Value: "8"}, {Key: "dropout", Value: "0.2"}}, // a party is lost in a round, and another in the next
	"away-rounds":          {{Key: "parties", Value: "8"}, {Key: "rounds", Value: "8"}, {Key: "away", Value: "0.2"}},    // a party may come back
	"statistics.choose-by": {{Key: "statistics.top-items", Value: "0.5"}, {Key: "statistics.bias-first", Value: "yes"}, {Key: "statistics.budgeting", Value: "uniform"}},
	"pairs.max-upload":     {{Key: "data", Value: "synthetic:small-150"}}, // fewer users are asked for no pairs
	"pairs.norm":           {{Key: "pairs.items", Value: "8"}, {Key: "epsilon", Value: "1e4"}},
	"pairs.ridge":          {{Key: "pairs.items", Value: "8"}, {Key: "epsilon", Value: "1e4"}},
	"pairs.share-counts":   {{Key: "pairs.items", Value: "8"}, {Key: "epsilon", Value: "1e4"}},
}

// stated reports whether a key has one meaning with an algorithm and every other value is refused: who gives it states what holds, such as the unit.
func stated(name string, k *config.Key) bool {
	chosen := func(c config.Config) string { c = c.Choose([]*config.Key{k}, nil); return c.Text(k) }
	standard, _ := with(name)
	refused := false
	for _, s := range others(k) {
		c, ok := with(name, s)
		if ok && chosen(c) != chosen(standard) {
			return false
		}
		refused = refused || !ok
	}
	return refused
}

// tried is a run of an algorithm with little to do.
func tried(name string, more ...config.Setting) map[string]string {
	settings := map[string]string{"algorithm": name, "rounds": "2", "baselines": "quick", "epsilon": "60"}
	used := algorithm.Find(name).About().Used()
	maps.DeleteFunc(settings, func(key, _ string) bool { return !slices.Contains(used, config.Find(key)) })
	if !algorithm.Find(name).About().Private {
		delete(settings, "epsilon")
	}
	if slices.ContainsFunc(used, func(k *config.Key) bool { return strings.HasSuffix(k.Name, "sampling-rate") }) && settings["epsilon"] != "" {
		settings["accountant"] = "rdp" // is calibrated sooner
	}
	if slices.Contains(used, config.Find("regression.hidden")) {
		settings["regression.hidden"] = "4-4"
	}
	for _, s := range more {
		settings[s.Key] = s.Value
	}
	return settings
}

// earlier returns the folder of a run of an algorithm.
func earlier(t *testing.T, data, name string) string {
	t.Helper()
	o := fedsim.Options{Settings: tried(name), Keep: true}
	o.Settings["data"], o.Settings["out"] = data, t.TempDir()
	r, err := fedsim.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r.Folder
}

// changes reports whether a key with another value leaves something else, in the first configurations where it has an effect by its declaration.
func changes(t *testing.T, data string, of *trial, k *config.Key) bool {
	t.Helper()
	contexts := 0
	first := together[k.Name]
	if k.Name == "statistics.start-decay" { // weighs the sums of an earlier session
		first = []config.Setting{{Key: "start-from", Value: earlier(t, data, of.name)}}
	}
	for _, given := range slices.Concat([][]config.Setting{first}, of.switches) {
		if slices.ContainsFunc(given, func(s config.Setting) bool { return s.Key == k.Name }) {
			continue
		}
		found := false
		base := given
		if k == algorithm.Baselines.Key || k == algorithm.Rounds.Key || k == algorithm.Epsilon.Key { // which tried sets
			base = append(slices.Clone(given), config.Setting{Key: k.Name, Value: k.Default})
		}
		for _, s := range others(k) {
			settings := slices.Concat(given, []config.Setting{s})
			c, ok := with(of.name, settings...)
			if !ok || k.When != nil && !k.When(c) {
				continue
			}
			found = true
			for _, run := range []bool{false, true} {
				if of.leaves(t, data, settings, run) != of.leaves(t, data, base, run) {
					return true
				}
			}
		}
		if found {
			if contexts++; contexts == 30 {
				return false
			}
		}
	}
	return false
}

// trial remembers what runs of an algorithm left.
type trial struct {
	name     string
	switches [][]config.Setting
	known    map[string]string
}

func (x *trial) leaves(t *testing.T, data string, given []config.Setting, run bool) string {
	t.Helper()
	key := fmt.Sprint(given, run)
	if _, ok := x.known[key]; !ok {
		x.known[key] = left(t, data, tried(x.name, given...), run)
	}
	return x.known[key]
}
