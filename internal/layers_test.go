package internal_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A rule forbids the packages in from, except some, to link the packages in
// forbid that are not in allow. [matches] explains the patterns. A package may
// always link itself.
type rule struct {
	name                        string
	from, except, forbid, allow []string
	direct                      bool // only imports in the package's own files
	why                         string
}

// families stands in a rule for all families of algorithms and what is below them.
const families = "FAMILIES"

// listed returns the patterns of the families that the packages internal/families and lab link.
func (g graph) listed() []string {
	var list []string
	for _, path := range slices.Concat(g[module+"/internal/families"], g[module+"/lab"]) {
		list = append(list, strings.TrimPrefix(path, module+"/")+"/...")
	}
	return list
}

// spelt returns rules that name each family where a rule has [families], and a rule that keeps each family from the others. A
// family of the lab may rest on a family of the core, for comparisons.
func (g graph) spelt(rules []rule) []rule {
	all := g.listed()
	spell := func(patterns []string) (list []string) {
		for _, p := range patterns {
			if p == families {
				list = append(list, all...)
			} else {
				list = append(list, p)
			}
		}
		return list
	}
	var list []rule
	for _, r := range rules {
		r.from, r.forbid = spell(r.from), spell(r.forbid)
		list = append(list, r)
	}
	for _, family := range all {
		others := slices.DeleteFunc(slices.Clone(all), func(p string) bool {
			return p == family || strings.HasPrefix(family, "lab/") && !strings.HasPrefix(p, "lab/")
		})
		list = append(list, rule{name: "a family knows no other: " + family, from: []string{family}, forbid: others, why: "what two families need belongs to a room of its own"})
	}
	return list
}

// helpers are packages like the standard library: they know nothing of the program, and every package may import them.
var helpers = []string{"internal/lists", "internal/locked", "internal/npy", "internal/problems", "internal/strictjson"}

var rules = []rule{
	{
		name: "helpers are for everybody", from: helpers,
		forbid: []string{"..."},
		why:    "a list of another, a call under a lock, an array or JSON of a file and a list of faults depend on nothing in the program",
	},
	{
		name: "dp is a foundation", from: []string{"dp/..."},
		forbid: []string{"..."}, allow: []string{"dp/...", "entropy", "internal/entropy/source"},
		why: "mechanisms and accountants know nothing of what uses them; dp imports itself and entropy only",
	},
	{
		name: "entropy is a foundation", from: []string{"entropy", "internal/entropy/..."},
		forbid: []string{"..."}, allow: []string{"entropy", "internal/entropy/..."},
		why: "where randomness comes from does not depend on what it is for",
	},
	{
		name: "dataset is a foundation", from: []string{"dataset/..."},
		forbid: []string{"..."}, allow: []string{"dataset/...", "internal/atomicfile", "internal/dense"},
		why: "data know nothing of what is trained on them",
	},
	{
		name: "the types of data know no room", from: []string{"dataset"},
		forbid: []string{"dataset/..."}, allow: []string{"internal/dataset/csr", "internal/dataset/idtext"},
		why: "rooms import the types, never the reverse",
	},
	{
		name: "rooms of data", from: []string{"dataset/split", "internal/dataset/pack", "internal/dataset/synthetic", "internal/dataset/published"},
		forbid: []string{"dataset/read", "dataset/split", "internal/dataset/download"},
		why:    "only read opens files of others, and no room divides its own sets",
	},
	{
		name: "a file is found before it is read", from: []string{"internal/dataset/files"},
		forbid: []string{"dataset/..."}, allow: []string{"dataset", "internal/dataset/csr", "internal/dataset/idtext"},
		why: "where a text lies and how it is packed does not depend on what it says",
	},
	{
		name: "records are read before sets are made", from: []string{"internal/dataset/records"},
		forbid: []string{"dataset/..."}, allow: []string{"dataset", "internal/dataset/csr", "internal/dataset/files", "internal/dataset/idtext", "internal/dataset/pack"},
		why: "a format says where its fields stand; read makes a set of them",
	},
	{
		name: "read alone opens texts", from: []string{"dataset/..."}, except: []string{"dataset/read", "dataset/parquet", "internal/dataset/records"}, direct: true,
		forbid: []string{"internal/dataset/files", "internal/dataset/records"},
		why:    "other rooms take sets",
	},
	{
		name: "the Parquet library is for the commands", from: []string{"..."}, except: []string{"cmd/...", "dataset/parquet", "internal/export/parquet"}, direct: true,
		forbid: []string{"github.com/parquet-go/...", "dataset/parquet", "internal/export/parquet"},
		why:    "it links net/http; a program that reads such files imports dataset/parquet",
	},
	{
		name: "model is for everybody", from: []string{"model/..."},
		forbid: []string{"..."}, allow: []string{"model/..."},
		why: "a matrix and a user's ratings belong to no algorithm; model imports nothing of this module",
	},
	{
		name: "protocol is the vocabulary", from: []string{"protocol/..."},
		forbid: []string{"..."}, allow: []string{"protocol/...", "dp/...", "entropy", "internal/entropy/source"},
		why: "everybody speaks it, so it imports itself, dp and entropy only",
	},
	{
		name: "secagg sums for anybody", from: []string{"secagg/..."},
		forbid: []string{"..."}, allow: []string{"secagg/...", "protocol/...", "dp/...", "entropy", "internal/entropy/source", "internal/merkle"},
		why: "a sum knows no role and no algorithm; secagg imports itself, protocol, dp, entropy and proofs about lists only",
	},
	{
		name: "align knows lists of ids", from: []string{"internal/align/..."},
		forbid: []string{"..."}, allow: []string{"internal/align/...", "protocol", "internal/protocol/codec", "dp/...", "entropy", "internal/entropy/source"},
		why: "rows are found before there is an experiment; align imports protocol and entropy only",
	},
	{
		name: "eval measures anything", from: []string{"eval/..."},
		forbid: []string{"..."}, allow: []string{"eval/...", "model/...", "dataset/...", "protocol/...", "dp/...", "entropy", "internal/entropy/source"},
		why: "metrics know no algorithm, role, driver or experiment; eval imports itself, model, dataset and protocol only",
	},
	{
		name: "roles know no algorithm", from: []string{"server/...", "aggregator/...", "relay/...", "client/..."},
		forbid: []string{"algorithm/...", families},
		why:    "a role declares the small interface it needs and the algorithms satisfy it",
	},
	{
		name: "roles know no driver", from: []string{"server/...", "aggregator/...", "relay/...", "client/..."},
		forbid: []string{"sim/...", "node/...", "internal/experiment/..."},
		why:    "the same roles run in the simulator and in a deployment",
	},
	{
		name: "roles touch no disk", from: []string{"server/...", "aggregator/...", "relay/...", "client/..."},
		forbid: []string{"internal/atomicfile"},
		why:    "what is to be kept goes out as an effect, and the driver keeps it",
	},
	{
		name: "helpers of tests are for tests", from: []string{"..."},
		forbid: []string{"internal/testutil", "internal/node/nodetest"}, direct: true,
		why: "they look into roles, or have tests and their flags, which no program may have",
	},
	{
		name: "config is a mechanism", from: []string{"config/..."},
		forbid: []string{"..."}, allow: []string{"config/...", "internal/typo"},
		why: "it holds what others declare, and declares no key itself",
	},
	{
		name: "cli is for any command", from: []string{"internal/cli/..."},
		forbid: []string{"..."}, allow: []string{"internal/cli/..."},
		why: "the scaffold of both commands knows neither experiments nor deployments; errors say of themselves what they are",
	},
	{
		name: "similar words are for everybody", from: []string{"internal/typo"},
		forbid: []string{"..."},
		why:    "how far a word is from another depends on nothing in the program",
	},
	{
		name: "arithmetic is for everybody", from: []string{"internal/dense"},
		forbid: []string{"..."},
		why:    "arithmetic depends on no setting and no algorithm",
	},
	{
		name: "version is for everybody", from: []string{"internal/version"},
		forbid: []string{"..."},
		why:    "what a program was built from depends on nothing in it",
	},
	{
		name: "algorithm knows none by name", from: []string{"algorithm/..."},
		forbid: []string{families, "internal/families", "internal/experiment/...", "internal/forecast/...", "internal/agreement/...", "results/..."},
		why:    "algorithms register themselves; what every algorithm is must not depend on one",
	},
	{
		name: "algorithms know no role", from: []string{"algorithm/...", families},
		forbid: []string{"server/...", "aggregator/...", "relay/...", "client/...", "sim/...", "node/...", "internal/experiment/...", "internal/forecast/...", "internal/agreement/...", "results/..."},
		why:    "an algorithm satisfies the interfaces of the roles with types of protocol",
	},
	{
		name: "algorithms know no secure sum", from: []string{"algorithm/...", families},
		forbid: []string{"secagg/..."},
		why:    "what a client contributes and what is made of a sum do not depend on how it is summed",
	},
	{
		name: "numerics of statistics know no settings", from: []string{"internal/fedssp/encoder", "internal/fedssp/posterior"},
		forbid: []string{"config", "algorithm/...", "fedssp", "internal/fedssp/kernel", "internal/fedssp/user", "internal/fedssp/serving", "internal/fedssp/settings", "internal/fedssp/solver", "internal/fedssp/stage"},
		why:    "arithmetic that a proof rests on depends on its arguments alone",
	},
	{
		name: "the kernel of factorization knows no configuration", from: []string{"internal/fedmf/kernel"},
		forbid: []string{"config", "algorithm/...", "fedmf"},
		why:    "parties and server compute with the same numbers, wherever these are from",
	},
	{
		name: "the kernel of statistics knows no configuration", from: []string{"internal/fedssp/kernel"},
		forbid: []string{"config", "algorithm/...", "fedssp", "internal/fedssp/user", "internal/fedssp/serving", "internal/fedssp/settings", "internal/fedssp/solver", "internal/fedssp/stage"},
		why:    "both sides compute with the same numbers, wherever these are from",
	},
	{
		name: "a client's computation knows neither configuration nor server", from: []string{"internal/fedssp/user"},
		forbid: []string{"config", "algorithm/...", "fedssp", "internal/fedssp/serving", "internal/fedssp/settings", "internal/fedssp/solver", "internal/fedssp/stage"},
		why:    "bounds hold whatever the server does, and depend on the numbers of the settings alone",
	},
	{
		name: "a server's computation knows neither configuration nor client", from: []string{"internal/fedssp/serving"},
		forbid: []string{"config", "algorithm/...", "fedssp", "internal/fedssp/user", "internal/fedssp/settings", "internal/fedssp/solver", "internal/fedssp/stage"},
		why:    "the server sees sums only",
	},
	{
		name: "keys of statistics know no computation", from: []string{"internal/fedssp/settings"},
		forbid: []string{"fedssp", "internal/fedssp/user", "internal/fedssp/serving", "internal/fedssp/solver", "internal/fedssp/stage"},
		why:    "a default follows from other settings and public facts",
	},
	{
		name: "solvers know no stage", from: []string{"internal/fedssp/solver"},
		forbid: []string{"fedssp", "internal/fedssp/stage"},
		why:    "the stage of statistics asks the solver",
	},
	{
		name: "stages know no algorithm", from: []string{"internal/fedssp/stage"},
		forbid: []string{"fedssp"},
		why:    "an algorithm is a list of stages",
	},
	{
		name: "experiment knows no driver and no algorithm", from: []string{"internal/experiment/..."},
		forbid: []string{"sim/...", "node/...", families, "internal/families", "internal/forecast/...", "internal/agreement/...", "results/..."},
		why:    "it asks the registry for the algorithm, and the door and the commands join it with a driver",
	},
	{
		name: "rooms above the experiment", from: []string{"internal/forecast/...", "internal/agreement/...", "results/..."},
		forbid: []string{"sim/...", "node/...", families, "internal/families"},
		why:    "they ask an opened experiment, and know no driver and no algorithm",
	},
	{
		name: "a folder knows no answer", from: []string{"results"},
		forbid: []string{"results/recommend"},
		why:    "a run is written, listed and read without being asked",
	},
	{
		name: "formats know matrices and ids", from: []string{"internal/export/..."},
		forbid: []string{"internal/experiment/...", "algorithm/...", "config/...", "dataset/...", "results", "results/recommend"},
		why:    "what is exported is embeddings, wherever they are from",
	},
	{
		name: "many runs know no driver", from: []string{"lab/sweep/...", "internal/study/..."},
		forbid: []string{"sim/...", "node/...", families, "internal/families"},
		why:    "a sweep starts processes, and a study reads what they left",
	},
	{
		name: "an audit knows no algorithm by name", from: []string{"lab/audit/...", "lab/attack/..."},
		forbid: []string{families, "internal/families", "node/..."},
		why:    "it asks the registry, and audits what a program brings as it does what is built in",
	},
	{
		name: "nothing rests on the lab", from: []string{"..."}, except: []string{"cmd/fedsim", "cmd/fednode", "examples/own-command", "lab/..."},
		forbid: []string{"lab/..."},
		why:    "what checks, attacks or repeats a paper needs the core; the core must not know that it is checked",
	},
	{
		name: "a verb is added to the command, not the reverse", from: []string{"lab/..."},
		forbid: []string{"cmd/..."},
		why:    "a program chooses which verbs it has",
	},
	{
		name: "one experiment knows nothing of many", from: []string{"algorithm/...", families, "internal/experiment/...", "internal/forecast/...", "internal/agreement/...", "results/...", "sim/...", "node/..."},
		forbid: []string{"lab/sweep/...", "internal/study/...", "lab/presets"},
		why:    "a run of a sweep is what it is alone",
	},
	{
		name: "runs are for the top", from: []string{"..."}, except: []string{".", "cmd/...", "lab/..."},
		forbid: []string{"internal/training"}, direct: true,
		why: "it joins experiment and driver for the door and the commands",
	},
	{
		name: "a search is for the command and its audit", from: []string{"..."}, except: []string{"lab/command", "lab/audit", "lab/tune"},
		forbid: []string{"lab/tune"}, direct: true,
		why: "a run must not know that it is chosen among others",
	},
	{
		name: "drivers know no experiment", from: []string{"sim/...", "node/..."},
		forbid: []string{"internal/experiment/...", "algorithm/...", "config/...", "internal/forecast/...", "internal/agreement/...", "results/..."},
		why:    "the door and the commands join experiment and driver",
	},
	{
		name: "families are linked at the top", from: []string{"..."}, except: []string{".", "cmd/...", "examples/..."},
		forbid: []string{"internal/families"}, direct: true,
		why: "whoever links the list has all algorithms: only programs and the door do",
	},
	{
		name: "simulated entropy is for sim", from: []string{"..."}, except: []string{"sim/...", "lab/audit/...", "lab/attack/..."},
		forbid: []string{"internal/entropy/simulated"}, direct: true,
		why: "repeatable streams protect nobody; only sim, audit, attack and tests may have them",
	},
	{
		name: "two make sources", from: []string{"..."}, except: []string{"entropy", "internal/entropy/..."},
		forbid: []string{"internal/entropy/source"}, direct: true,
		why: "whoever imports it could make a stream that is repeatable and does not say so",
	},
	{
		name: "a deployment simulates nothing", from: []string{"node/...", "cmd/fednode/..."},
		forbid: []string{"sim/...", "internal/entropy/simulated"},
		why:    "a deployment must not be able to reach a repeatable stream",
	},
	{
		name: "generators are for public values", from: []string{"..."}, except: []string{"entropy", "internal/dataset/synthetic", "lab/cond/regression"},
		forbid: []string{"std:math/rand/..."}, direct: true,
		why: "secrets come from entropy.Source, public values from entropy.Public; only they and the synthetic sets may use a plain generator",
	},
	{
		name: "bytes are for the edge", from: []string{"..."}, except: []string{"internal/protocol/wire/...", "node/...", "cmd/fednode/..."},
		forbid: []string{"internal/protocol/wire/..."},
		why:    "roles and sums deal in messages, and have no bytes",
	},
	{
		name: "messages describe their bytes", from: []string{"..."},
		forbid: []string{"google.golang.org/protobuf/..."}, direct: true,
		why: "protocol/fields.go is the one description of a message's bytes; libraries for files and networks may use protobuf for themselves",
	},
	{
		name: "who is admitted and what is kept need no network", from: []string{"node/admission/...", "node/store/...", "internal/atomicfile"},
		forbid: []string{"github.com/libp2p/...", "std:net/...", "server/...", "aggregator/...", "relay/...", "client/..."},
		why:    "documents can be verified, and files read, wherever they are: without a connection and without running a role",
	},
	{
		name: "peers know no session", from: []string{"internal/node/peer"},
		forbid: []string{"..."}, allow: []string{"node/admission", "internal/atomicfile", "internal/merkle", "protocol/...", "dp/...", "entropy", "internal/entropy/source"},
		why: "hosts, queues and connections are the same for every role and every message",
	},
	{
		name: "peers know no message", from: []string{"internal/node/peer"},
		forbid: []string{"protocol/..."}, direct: true,
		why: "a queue and a stream carry bytes, whatever they mean",
	},
	{
		name: "sessions know no role", from: []string{"internal/node/session"},
		forbid: []string{"node", "internal/node/hub", "node/store", "internal/node/ops", "server/...", "aggregator/...", "relay/...", "client/..."},
		why:    "what both ends of a stream have in common is of neither end",
	},
	{
		name: "hubs know nobody who dials them", from: []string{"internal/node/hub"},
		forbid: []string{"node", "internal/node/ops", "client/...", "server/..."},
		why:    "an aggregator and a relay meet a client and the server by their messages alone",
	},
	{
		name: "who dials knows no hub", from: []string{"node"},
		forbid: []string{"internal/node/hub", "internal/node/ops", "aggregator/...", "relay/..."},
		why:    "a client and the server meet an aggregator by its messages alone",
	},
	{
		name: "only node speaks libp2p", from: []string{"..."}, except: []string{"node", "internal/node/peer", "internal/node/session", "internal/node/hub", "internal/node/nodetest", "cmd/fednode/..."},
		forbid: []string{"github.com/libp2p/..."},
		why:    "fedsim must build in seconds, and documents, files and counters need no network",
	},
}

// The rules come from the design, and the packages from the go command, which
// lists the module as it is now.
func TestImportsRunDownward(t *testing.T) {
	g := load(t)
	for _, r := range g.spelt(rules) {
		if !slices.Equal(r.from, helpers) {
			r.allow = append(slices.Clone(r.allow), helpers...)
		}
		t.Run(r.name, func(t *testing.T) {
			for _, pattern := range g.unknown(r) {
				t.Errorf("the rule names %s, but there is no such package", pattern)
			}
			for _, v := range g.violations(r) {
				t.Error(v)
			}
		})
	}
}

// Wrong rules about imports that the module certainly has (the simulator's whole
// point is to run the roles on repeatable streams): were they not reported,
// TestImportsRunDownward would prove nothing.
func TestWrongRulesAreReported(t *testing.T) {
	g := load(t)
	for _, c := range []struct {
		r    rule
		want string // start of the first violation
	}{
		{
			rule{from: []string{"sim"}, forbid: []string{"internal/entropy/simulated"}, direct: true},
			module + "/sim must not import " + module + "/internal/entropy/simulated (" + module + "/sim -> " + module + "/internal/entropy/simulated)",
		},
		{
			rule{from: []string{"cmd/..."}, forbid: []string{"internal/entropy/simulated"}},
			module + "/cmd/fedsim must not import " + module + "/internal/entropy/simulated (" + module + "/cmd/fedsim -> " + module + "/lab/command -> " + module + "/lab/attack -> " + module + "/internal/entropy/simulated)",
		},
		{
			rule{from: []string{"..."}, except: []string{"internal/dataset/synthetic"}, forbid: []string{"std:math/rand/v2"}, direct: true},
			module + "/entropy must not import math/rand/v2",
		},
		{
			rule{from: []string{"cmd/fedsim"}, forbid: []string{"github.com/goccy/..."}},
			module + "/cmd/fedsim must not import github.com/goccy/go-yaml",
		},
	} {
		got := g.violations(c.r)
		if len(got) == 0 || !strings.HasPrefix(got[0], c.want) {
			t.Errorf("violations of %+v:\n%s\nwant first %s...", c.r, strings.Join(got, "\n"), c.want)
		}
	}
	wrong := rule{from: []string{"simulator", "sim", "node/..."}, forbid: []string{"entropie/...", "std:math/rand", "github.com/libp2p/..."}}
	if got, want := g.unknown(wrong), []string{"simulator", "entropie/..."}; !slices.Equal(got, want) {
		t.Errorf("unknown packages of %+v: %q, want %q", wrong, got, want)
	}
}

// The expected rules are written by hand.
func TestFamiliesAreReadFromTheirList(t *testing.T) {
	g := graph{module + "/internal/families": {module + "/x", module + "/y"}, module + "/lab": {module + "/lab/v", module + "/lab/w"}}
	got := g.spelt([]rule{{name: "r", from: []string{"a", families}, forbid: []string{families, "b"}}})
	want := [][2][]string{
		{{"a", "x/...", "y/...", "lab/v/...", "lab/w/..."}, {"x/...", "y/...", "lab/v/...", "lab/w/...", "b"}},
		{{"x/..."}, {"y/...", "lab/v/...", "lab/w/..."}},
		{{"y/..."}, {"x/...", "lab/v/...", "lab/w/..."}},
		{{"lab/v/..."}, {"lab/w/..."}},
		{{"lab/w/..."}, {"lab/v/..."}},
	}
	if len(got) != len(want) {
		t.Fatalf("%d rules, want %d", len(got), len(want))
	}
	for i, r := range got {
		if !slices.Equal(r.from, want[i][0]) || !slices.Equal(r.forbid, want[i][1]) {
			t.Errorf("rule %d is from %q to %q, want %q", i, r.from, r.forbid, want[i])
		}
	}
	if list := load(t).listed(); len(list) < 4 {
		t.Errorf("the module has the families %q", list)
	}
}

// The expected lines are read off the small graph by hand.
func TestViolations(t *testing.T) {
	const m = module
	g := graph{
		m + "/a":     {m + "/b", "io"},
		m + "/b":     {m + "/b/sub", "x.org/y"},
		m + "/b/sub": {m + "/c"},
		m + "/bb":    {m + "/c"}, // not below b
		m + "/c":     {"io"},
		"x.org/y":    {"x.org/y/z", m + "x/c"}, // not in this module
		"x.org/y/z":  nil,
		"io":         nil,
	}
	line := func(chain ...string) string {
		return chain[0] + " must not import " + chain[len(chain)-1] + " (" + strings.Join(chain, " -> ") + "): because"
	}
	for _, c := range []struct {
		name string
		r    rule
		want []string
	}{
		{"allowed", rule{from: []string{"c"}, forbid: []string{"..."}}, nil},
		{"direct", rule{from: []string{"b"}, forbid: []string{"b/sub"}, direct: true}, []string{line(m+"/b", m+"/b/sub")}},
		{"direct only", rule{from: []string{"a"}, forbid: []string{"c"}, direct: true}, nil},
		{"by others", rule{from: []string{"a"}, forbid: []string{"c"}}, []string{line(m+"/a", m+"/b", m+"/b/sub", m+"/c")}},
		{"below", rule{from: []string{"b/..."}, forbid: []string{"c"}}, []string{line(m+"/b", m+"/b/sub", m+"/c"), line(m+"/b/sub", m+"/c")}},
		{"except", rule{from: []string{"..."}, except: []string{"a", "b/..."}, forbid: []string{"c"}}, []string{line(m+"/bb", m+"/c")}},
		{"allow", rule{from: []string{"b"}, forbid: []string{"..."}, allow: []string{"b/..."}}, []string{line(m+"/b", m+"/b/sub", m+"/c")}},
		{"outside", rule{from: []string{"a"}, forbid: []string{"x.org/y/..."}}, []string{line(m+"/a", m+"/b", "x.org/y"), line(m+"/a", m+"/b", "x.org/y", "x.org/y/z")}},
		{"standard library", rule{from: []string{"c"}, forbid: []string{"std:io"}}, []string{line(m+"/c", "io")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.r.why = "because"
			if got := g.violations(c.r); !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// One file of each command may import the lab. People then have one command with every verb, and a program that imports only
// cmd/fedsim/command has no lab.
func TestOneFileOfEachCommandImportsTheLab(t *testing.T) {
	for _, command := range []string{"fedsim", "fednode"} {
		files, err := filepath.Glob(filepath.Join(root, "cmd", command, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, path := range files {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(path, "_test.go") && bytes.Contains(text, []byte(`"`+module+"/lab")) {
				found = append(found, filepath.Base(path))
			}
		}
		if !slices.Equal(found, []string{"lab.go"}) {
			t.Errorf("files of cmd/%s that import the lab: %q, want lab.go alone", command, found)
		}
	}
}

// promised lists the packages that other programs may import: the rooms of the map in docs/architecture.md, and those below a room
// whose types the room's own interface names.
var promised = []string{
	".", "aggregator", "algorithm", "algorithm/external", "algorithm/peruser", "client", "config",
	"dataset", "dataset/parquet", "dataset/read", "dataset/split",
	"dp", "dp/noise", "entropy", "eval", "fedmf", "fedssp", "model",
	"node", "node/admission", "node/store", "protocol", "relay",
	"results", "results/recommend", "secagg", "server", "sim",
}

// A package outside internal is a promise to importers. The lab, commands and examples promise nothing.
func TestPromisedPackages(t *testing.T) {
	kept := slices.Concat(promised, []string{"internal/...", "lab/...", "cmd/...", "examples/..."})
	for _, p := range load(t).own() {
		if !anyMatches(kept, p) && !strings.Contains(p, "/internal/") {
			t.Errorf("%s can be imported by other programs: move it to internal, or add it to the promised packages", p)
		}
	}
	for _, p := range load(t).unknown(rule{from: promised}) {
		t.Errorf("%s is promised, but there is no such package", p)
	}
}
