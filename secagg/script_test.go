package secagg_test

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// script is a file of testdata/dropouts. Its first paragraph describes a federation. Every other
// paragraph is a scenario: it says which clients a round loses, and what must follow. Comments start
// with #.
//
//	20 clients, tolerance 0.4, colluders 0.5    a federation; also "active" and "noise replaced"
//	graph complete                              or sparse
//	long                                        only long tests run this file
//
//	drop 3 at masked-input                      any 3 clients that are left; may be repeated
//	drop at most 2                              one round for each way to lose them, at all stages
//	sum = survivors: 17                         of the inputs and the changes of noise of 17 clients
//	sum = all: 20, noise of survivors: 17       of 20 inputs, but of the changes of noise of 17 clients
//	abort at share: 11 left, 12 required        the stage has too few clients
//	a client refuses the roster                 which an aggregator sends that continues all the same
//
// A set of clients is "all", "survivors" or "left after STAGE", with the number of them.
type script struct {
	cohort         protocol.Cohort
	mode           secagg.Mode
	noise          protocol.NoiseKind
	complete, long bool
	scenarios      []scenario
}

// scenario is a paragraph of a script.
type scenario struct {
	name    string
	drops   map[protocol.Stage]int
	every   int  // of each way to lose at most so many clients: a round
	sums    bool // the round ends with a sum
	input   clientSet
	noise   clientSet
	abort   string // "stage: left, required"
	refused string // the message that a client refuses after the abort
}

// clientSet is a set of a scenario's clients: the clients that are lost after a stage, or never.
type clientSet struct {
	after int // a stage; -1: all clients
	count int // 0: not said
}

func (s clientSet) has(lostAt int) bool { return lostAt > s.after }

const never = int(protocol.Stages) // the stage at which survivors are lost

var (
	federationLine = regexp.MustCompile(`^(\d+) clients, tolerance ([\d.]+), colluders ([\d.]+)(, active)?(, noise replaced)?$`)
	dropLine       = regexp.MustCompile(`^drop (\d+) at ([a-z-]+)$`)
	everyLine      = regexp.MustCompile(`^drop at most (\d+)$`)
	sumLine        = regexp.MustCompile(`^sum = (` + setWords + `)(?:, noise of (` + setWords + `))?$`)
	abortLine      = regexp.MustCompile(`^abort at ([a-z-]+: \d+ left, \d+ required)$`)
	refusesLine    = regexp.MustCompile(`^a client refuses the (roster|delivery|survivors|quorum|answers)$`)
)

const setWords = `(?:all|survivors|left after [a-z-]+)(?:: \d+)?`

// readScripts returns the scripts of testdata/dropouts by name.
func readScripts(t *testing.T) map[string]*script {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", "dropouts", "*.txt"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d scripts, error %v", len(paths), err)
	}
	scripts := make(map[string]*script)
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s := &script{mode: secagg.SemiHonest, noise: protocol.Split}
		for i, paragraph := range strings.Split(string(b), "\n\n") {
			if i > 0 {
				s.scenarios = append(s.scenarios, scenario{drops: make(map[protocol.Stage]int)})
			}
			for line := range strings.Lines(paragraph) {
				if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
					continue
				}
				if err := s.read(line, i > 0); err != nil {
					t.Fatalf("%s: %q: %v", path, line, err)
				}
			}
		}
		scripts[strings.TrimSuffix(filepath.Base(path), ".txt")] = s
	}
	return scripts
}

// read takes in a line of the federation or of the last scenario.
func (s *script) read(line string, inScenario bool) error {
	if !inScenario {
		return s.readFederation(line)
	}
	c := &s.scenarios[len(s.scenarios)-1]
	if strings.HasPrefix(line, "drop") {
		c.name = strings.TrimPrefix(c.name+", "+line, ", ")
	}
	var err error
	if m := dropLine.FindStringSubmatch(line); m != nil {
		var at protocol.Stage
		at, err = stageOf(m[2])
		c.drops[at] += number(m[1])
	} else if m := everyLine.FindStringSubmatch(line); m != nil {
		c.every = number(m[1])
	} else if m := sumLine.FindStringSubmatch(line); m != nil {
		c.sums = true
		if c.input, err = setOf(m[1]); err == nil {
			c.noise = c.input
			if m[2] != "" {
				c.noise, err = setOf(m[2])
			}
		}
	} else if m := abortLine.FindStringSubmatch(line); m != nil {
		c.abort = m[1]
	} else if m := refusesLine.FindStringSubmatch(line); m != nil {
		c.refused = m[1]
	} else {
		err = fmt.Errorf("no line of a scenario")
	}
	return err
}

func (s *script) readFederation(line string) error {
	switch m := federationLine.FindStringSubmatch(line); {
	case m != nil:
		tolerance, _ := strconv.ParseFloat(m[2], 64)
		colluders, _ := strconv.ParseFloat(m[3], 64)
		s.cohort = protocol.Cohort{Clients: number(m[1]), Tolerance: tolerance, Colluders: colluders}
		if m[4] != "" {
			s.mode = secagg.Active
		}
		if m[5] != "" {
			s.noise = protocol.TwoRound
		}
	case line == "graph complete":
		s.complete = true
	case line == "long":
		s.long = true
	case line != "graph sparse":
		return fmt.Errorf("no line of a federation")
	}
	return nil
}

func setOf(words string) (clientSet, error) {
	words, count, _ := strings.Cut(words, ": ")
	s := clientSet{count: number("0" + count)}
	switch at, ok := strings.CutPrefix(words, "left after "); {
	case ok:
		stage, err := stageOf(at)
		s.after = int(stage)
		return s, err
	case words == "all":
		s.after = -1
	default:
		s.after = never - 1
	}
	return s, nil
}

func stageOf(name string) (protocol.Stage, error) {
	for s := range protocol.Stages {
		if s.String() == name {
			return s, nil
		}
	}
	return 0, fmt.Errorf("no stage %q", name)
}

func number(digits string) int {
	n, _ := strconv.Atoi(digits) // of a pattern
	return n
}

// rounds returns the drops of each round of the scenario, by their names.
func (c *scenario) rounds(stages []protocol.Stage) map[string]map[protocol.Stage]int {
	if c.every == 0 {
		return map[string]map[protocol.Stage]int{cmp.Or(c.name, "no client is lost"): c.drops}
	}
	out := make(map[string]map[protocol.Stage]int)
	for _, counts := range spread(c.every, len(stages)) {
		drops := make(map[protocol.Stage]int)
		for i, n := range counts {
			if n > 0 {
				drops[stages[i]] = n
			}
		}
		out[fmt.Sprint(counts)] = drops
	}
	return out
}

// spread returns all ways to lose at most so many clients at some stages.
func spread(most, stages int) [][]int {
	if stages == 0 {
		return [][]int{nil}
	}
	var out [][]int
	for n := range most + 1 {
		for _, rest := range spread(most-n, stages-1) {
			out = append(out, append([]int{n}, rest...))
		}
	}
	return out
}

// A script with a line that is not read, or without an outcome, would test less than it says.
func TestScenariosSayAll(t *testing.T) {
	stages := make(map[protocol.Stage]bool)
	for name, s := range readScripts(t) {
		if s.cohort.Clients == 0 || len(s.scenarios) == 0 {
			t.Errorf("%s: %d clients, %d scenarios", name, s.cohort.Clients, len(s.scenarios))
		}
		for _, c := range s.scenarios {
			if c.sums == (c.abort != "") {
				t.Errorf("%s: %q must say either the sum or the abort", name, c.name)
			}
			for at := range maps.Keys(c.drops) {
				stages[at] = true
			}
		}
	}
	want := []protocol.Stage{protocol.StageAdvertise, protocol.StageShare, protocol.StageMaskedInput, protocol.StageConsistency, protocol.StageUnmask, protocol.StageReplace}
	if got := slices.Sorted(maps.Keys(stages)); !slices.Equal(got, want) {
		t.Errorf("clients are lost at %v, want %v", got, want)
	}
	if err := (&script{scenarios: make([]scenario, 1)}).read("sum = survivor: 3", true); err == nil {
		t.Error("a line with a wrong word is read")
	}
}
