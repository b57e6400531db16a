package command

import (
	"fmt"
	"os"
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
var examples = map[string][]string{
	"run": {
		"fedsim run --epsilon 5 --dropout 0.1",
		"fedsim run --data ratings.csv --algorithm dp-cmf --seed 2",
		"fedsim run experiment.yaml --set split.seed=3",
	},
	"sweep": {
		"fedsim sweep --epsilon 1,5,20 --seeds 1..5",
		"fedsim sweep --algorithm ssp-c,lfl-sgdmf --data ratings.csv --out runs/both",
		"fedsim sweep study.yaml --jobs 2 --dry-run",
	},
	"tune": {
		"fedsim tune --algorithm ials --data ml-1m --over ials.ridge=log:0.001..0.1 --over rank=16..128 --set split.validation=0.1",
		"fedsim tune --algorithm lfl-sgdmf --over rounds=5..40 --search halton --set split.validation=0.1",
		"fedsim tune --epsilon 5 --over statistics.clip-user=0.3..2 --private --set split.validation=0.1",
	},
	"results": {
		"fedsim results runs",
		"fedsim results runs/sweep --over seed",
		"fedsim results runs/sweep --format latex --metrics rmse,ndcg@10",
	},
	"compare": {
		"fedsim compare runs/a runs/b",
		"fedsim compare runs/a runs/b --metric ndcg@10",
		"fedsim compare runs/a mine.csv",
	},
	"plot": {
		"fedsim plot runs/sweep --out rmse.svg",
		"fedsim plot runs/sweep --out rmse.pdf --width 8.5 --no-title",
		"fedsim plot runs/a runs/b --out learning.svg --figure learning",
	},
	"report": {
		"fedsim report runs/sweep",
		"fedsim report runs/sweep --out study.html",
		"fedsim report runs/a runs/b --title 'Two algorithms'",
	},
	"plan": {
		"fedsim plan --epsilon 5",
		"fedsim plan --data ratings.csv --verbose",
		"fedsim plan --data synthetic:ml-10m --calibrate",
	},
	"export": {
		"fedsim export --run runs/NAME --to csv",
		"fedsim export --run runs/NAME --to word2vec --out vectors",
		"fedsim export --run runs/NAME --to csv --users --data new.csv",
	},
	"serve": {
		"fedsim serve --run runs/NAME",
		"fedsim serve --run server/current --data ratings.csv --items items",
		"fedsim serve --run runs/NAME --data ratings.csv",
	},
	"chaos": {
		"fedsim chaos",
		"fedsim chaos --schedules 1000 --mode active",
		"fedsim chaos --replay 7",
	},
	"audit": {
		"fedsim audit",
		"fedsim audit --algorithm lfl-sgdmf --epsilon 1",
		"fedsim audit --algorithm lfl-sgdmf --epsilon 1 --neighbours",
	},
	"attack": {
		"fedsim attack membership-user",
		"fedsim attack membership-rating --epsilon 1,10,inf",
		"fedsim attack attribute --data ratings.csv --control",
	},
	"privacy epsilon": {
		"fedsim privacy epsilon --mechanism gaussian --noise-multiplier 2 --steps 10 --delta 1e-5",
		"fedsim privacy epsilon --mechanism subsampled-gaussian --noise-multiplier 1 --sampling-rate 0.01 --steps 1000 --delta 1e-5",
		"fedsim privacy epsilon --mechanism skellam --variance 1e6 --l2 100 --l1 1000 --delta 1e-5",
	},
	"privacy noise": {
		"fedsim privacy noise --mechanism gaussian --epsilon 1 --delta 1e-5",
		"fedsim privacy noise --mechanism gaussian --epsilon 1 --steps 100 --delta 1e-5",
		"fedsim privacy noise --mechanism skellam --epsilon 1 --l2 100 --l1 1000 --delta 1e-5",
	},
	"data list": {
		"fedsim data list",
		"fedsim data list --format json",
		"fedsim data list --format table",
	},
	"data get": {
		"fedsim data get ml-latest-small",
		"fedsim data get ml-1m",
		"fedsim data get ml-1m --mirror https://example.org/sets",
	},
	"data info": {
		"fedsim data info ratings.csv",
		"fedsim data info ratings.csv --separator semicolon --columns user=1,item=2,rating=3",
		"fedsim data info ratings.csv --buckets 5",
	},
	"data ids": {
		"fedsim data ids ratings.csv",
		"fedsim data ids ratings.csv --of items",
		"fedsim data ids archive.zip --member ratings.csv",
	},
	"data similar": {
		"fedsim data similar --run runs/NAME --out similar.csv",
		"fedsim data similar --run runs/NAME --neighbours 20 --out similar.csv",
		"fedsim data similar --run runs/NAME --binary --out similar.csv",
	},
	"data raters": {
		"fedsim data raters ratings.csv --public-users 100 --out raters.csv",
		"fedsim data raters ratings.csv --public-ids public.txt --out raters.csv",
		"fedsim data raters ratings.csv --public-users 100 --binary --out raters.csv",
	},
	"data pack": {
		"fedsim data pack ratings.csv --out ratings.packed",
		"fedsim data pack synthetic:ml-10m --out ml-10m.packed",
		"fedsim data pack archive.zip --member ratings.csv --out ratings.packed",
	},
	"data verify": {
		"fedsim data verify ml-latest-small",
		"fedsim data verify ml-1m",
		"fedsim data verify ml-1m --format json",
	},
	"recommend": {
		"fedsim recommend --run runs/NAME --user 42",
		"fedsim recommend --run runs/NAME --user new --data new.csv",
		"fedsim recommend --run runs/NAME --all --top 20 --to parquet --out lists.parquet",
	},
	"overlap": {
		"fedsim overlap runs/a runs/b",
		"fedsim overlap runs/a runs/b --top 20",
		"fedsim overlap runs/a runs/b --by cosine",
	},
	"similar": {
		"fedsim similar --run runs/NAME --item 'Toy Story'",
		"fedsim similar --run runs/NAME --item 1 --top 20",
		"fedsim similar --run runs/NAME --item 1 --by inner",
	},
	"keys": {
		"fedsim keys",
		"fedsim keys dropout",
		"fedsim keys --algorithm dp-cmf",
	},
	"explain": {
		"fedsim explain ssp-c",
		"fedsim explain epsilon",
		"fedsim explain split.test",
	},
}

// groups holds, by the headings of a command's help, the names of the keys whose flags stand under them; the
// others stand under Training.
var groups = map[string][]string{
	"Data:": {
		"data", "rating-min", "rating-max", "columns", "duplicates", "separator", "no-header", "day-first", "encoding", "member", "unrated", "bad-rows",
		"features", "feedback", "public-users", "public-ids", "public-binary",
	},
	"Privacy:":  {"epsilon", "delta", "unit", "accountant", "noise", "noise-draw", "secagg", "mode", "colluders"},
	"Dropouts:": {"dropout", "dropout-at", "tolerance", "sit-out", "leave", "away", "away-rounds"},
	"Output:":   {"out", "name", "baselines", "workers"},
}

// group returns the heading of a command's help under which the flag of a key stands.
func group(k *config.Key) string {
	for heading, names := range groups {
		if slices.Contains(names, k.Name) {
			return heading
		}
	}
	return "Training:"
}

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

// fileHint says how a file is given that was named without a flag.
func fileHint(err error) string {
	m := argumentOf.FindStringSubmatch(err.Error())
	if m == nil || !cli.Takes(err, "data") && cli.CommandOf(err) != "data" {
		return ""
	}
	if _, err := os.Stat(m[1]); err != nil {
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
