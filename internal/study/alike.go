package study

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
)

// This file says which runs belong together. Tables, means, differences, pictures and pages all ask [Runs.together].

// together returns groups of runs that differ only in the keys over and in what follows from them by a rule,
// in the order of their first runs. Data, tests and starts count by their content. A group has one run for each
// value of the keys over: if there are several, their starts or their versions of fedsim differ, and keep them apart.
func (runs Runs) together(over ...*config.Key) (groups []Runs) {
	ids, clash, seen := make([]string, len(runs)), make(map[string]bool), make(map[string]bool)
	for i, r := range runs {
		ids[i] = r.Alike(over...)
		one := ids[i]
		for _, k := range over {
			one += fmt.Sprintf("%q", r.Config.Text(k))
		}
		clash[ids[i]] = clash[ids[i]] || seen[one]
		seen[one] = true
	}
	at := make(map[string]int)
	for i, r := range runs {
		id := ids[i]
		if clash[id] {
			id += r.Manifest.StartDigest + " " + r.Manifest.Version + " " + r.Manifest.Revision
		}
		place, ok := at[id]
		if !ok {
			place = len(groups)
			at[id] = place
			groups = append(groups, nil)
		}
		groups[place] = append(groups[place], r)
	}
	return groups
}

// told are the keys whose values are told by digests. People see names.
var told = []*config.Key{algorithm.SplitTestFile.Key, algorithm.StartFrom.Key, algorithm.Data.Key}

// name is the name of what a run has for one of the keys told.
func (r *Run) name(k *config.Key) string {
	switch {
	case k == algorithm.Data.Key:
		return r.Manifest.Data
	case r.Asked(k) == "":
		return "none"
	case k == algorithm.SplitTestFile.Key:
		return filepath.Base(r.Config.Text(k))
	case len(r.Manifest.Sessions) == 2:
		return "1-session"
	}
	return fmt.Sprintf("%d-sessions", max(0, len(r.Manifest.Sessions)-1))
}

// tell names tests, starts and data. A name that stands for several contents gets the start of a digest. Data count together
// with a file of tests, whose ratings their digest covers.
func (runs Runs) tell() {
	for _, k := range told {
		name := func(r *Run) string {
			if k == algorithm.Data.Key {
				return r.name(k) + "\n" + r.Setting(algorithm.SplitTestFile.Key)
			}
			return r.name(k)
		}
		contents := make(map[string][]string)
		for _, r := range runs {
			if c := r.Asked(k); !slices.Contains(contents[name(r)], c) {
				contents[name(r)] = append(contents[name(r)], c)
			}
		}
		for _, r := range runs {
			if c := r.Asked(k); len(contents[name(r)]) > 1 {
				r.shown[k] = r.name(k) + "@" + c[:min(len(c), 8)]
			}
		}
	}
}

// apart says which names stand for several contents; nil if none does.
func (runs Runs) apart() (notes []string) {
	for _, k := range told {
		var names []string
		for _, r := range runs {
			if v := r.shown[k]; v != "" && !slices.Contains(names, v) {
				names = append(names, v)
			}
		}
		if len(names) > 0 {
			notes = append(notes, fmt.Sprintf("Kept apart, since names are equal and contents differ: %s %s.", k.Name, strings.Join(names, ", ")))
		}
	}
	return notes
}

// seedsNote says what ± is over, for groups of runs that differ in their seeds; "" for single runs.
func seedsNote(groups []Runs) string {
	shared, own := false, false
	for _, g := range groups {
		for _, r := range g[1:] {
			if r.Manifest.SplitDigest == g[0].Manifest.SplitDigest {
				shared = true
			} else {
				own = true
			}
		}
	}
	switch {
	case shared && own:
		return "Some seeds of a row share a split and others have their own: compare ± with care."
	case shared:
		return "The seeds of a row share one split: ± is of noise and starts, and not of other test ratings."
	case own:
		return "Each seed has a split of its own: ± covers other test ratings too."
	}
	return ""
}
