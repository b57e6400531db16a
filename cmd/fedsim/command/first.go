package command

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset/published"
	"github.com/fedsim/fedsim/dataset/synthetic"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/study"
)

// first is printed by fedsim without arguments.
const first = `fedsim simulates a federation that trains a private recommender.

First steps:
  fedsim run                           train the default on generated ratings
  fedsim run --data ratings.csv        train on your own ratings
  fedsim plan --data ratings.csv       see privacy and cost, and train nothing
  fedsim sweep --epsilon 1,5,20        compare budgets, a run each
  fedsim results runs                  list the finished runs
  fedsim recommend --run runs/NAME --user ID

To look things up:
  fedsim explain ssp-c                 what an algorithm or a key does
  fedsim keys dropout                  the keys that have to do with dropout
  fedsim help run                      every flag of a command
`

// examples holds three calls of each command, which its help ends with.
//
//go:embed examples.txt
var examples string

var argumentOf = regexp.MustCompile(`unexpected argument (.+)`)

// hint returns what to do about a call that cannot be parsed.
func hint(err error) string {
	flag := cli.UnknownFlag(err)
	if flag == "" {
		return fileHint(err)
	}
	command, settings := cli.CommandOf(err), cli.Takes(err, "set")
	if k := config.Find(flag); k != nil && settings {
		return fmt.Sprintf("it is a key without a flag: --set %s=VALUE", k.Name)
	}
	if others := takers(flag); len(others) > 0 {
		return fmt.Sprintf("other commands take it: %s", strings.Join(others, ", "))
	}
	if !settings {
		return "fedsim help " + command + " lists its flags"
	}
	return config.Near(flag) + "; fedsim keys lists all"
}

// fileHint says how a file or a run's folder is given that was named without a flag.
func fileHint(err error) string {
	m := argumentOf.FindStringSubmatch(err.Error())
	if m == nil {
		return ""
	}
	if _, err2 := os.Stat(filepath.Join(m[1], "summary.json")); err2 == nil && cli.Takes(err, "run") {
		return fmt.Sprintf("a run is given by a flag: --run %s", m[1])
	}
	if _, err2 := os.Stat(m[1]); err2 != nil || !cli.Takes(err, "data") && cli.CommandOf(err) != "data" {
		return ""
	}
	return fmt.Sprintf("a data set is given by a flag, --data %s, and fedsim data info %s describes it", m[1], m[1])
}

// takers returns the commands that take a flag.
func takers(flag string) (list []string) {
	c := newCommands()
	parser, err := cli.Program{Name: "fedsim"}.Parser(&c)
	if err != nil {
		return nil
	}
	for _, leaf := range parser.Model.Leaves(true) {
		if slices.ContainsFunc(leaf.Flags, func(f *kong.Flag) bool { return f.Name == flag }) {
			list = append(list, leaf.FullPath())
		}
	}
	return list
}

// values holds what a shell completes after the flags whose values are no fixed list.
func values() map[string][]string {
	var names, settings []string
	for _, k := range config.Keys() {
		names = append(names, k.Name)
		settings = append(settings, k.Name+"=")
	}
	data := []string{"synthetic"}
	for _, shape := range synthetic.ShapeNames() {
		data = append(data, "synthetic:"+strings.TrimPrefix(shape, "synthetic:"))
	}
	return map[string][]string{"set": settings, "over": names, "data": append(data, published.Names()...), "metric": study.CommonMetrics()}
}
