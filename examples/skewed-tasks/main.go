// Skewed-tasks learns a hundred regressions of ten thousand users. Some regressions have few users.
// It prints the test RMSE by the exponent of the regressions' weights: the figure of appendix C of
// the multi-task paper. The noise is fresh every time.
//
//	go run ./examples/skewed-tasks -skew 1,2 -epsilon 1,5,20 -seeds 5
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/lab/ssp/tasks"
	"github.com/fedsim/fedsim/lab/ssp/tasks/generate"
	"github.com/fedsim/fedsim/model"
)

func main() {
	skew := flag.String("skew", "1,2", "parameters of the power law that tasks' sizes follow; smaller is more skewed")
	epsilon := flag.String("epsilon", "1,5,20", "privacy budgets of a user, at a delta of 1e-5")
	seeds := flag.Int("seeds", 5, "data sets, each with a split of its own")
	counts := flag.String("counts", "public", "public: expected task sizes, which are numbers of the generator; private: noisy ones, paid for")
	users := flag.Int("users", 10_000, "users")
	steps := flag.Int("steps", 100, "steps of gradient descent")
	flag.Parse()
	if err := figure(os.Stdout, *skew, *epsilon, *seeds, *counts, *users, *steps); err != nil {
		log.Fatal(err)
	}
}

// test is the share of the labels held out from training.
const test = 0.2

// exponents are the exponents in the figure.
var exponents = []float64{0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1}

func figure(w io.Writer, skews, epsilons string, seeds int, counts string, users, steps int) error {
	if seeds < 1 || counts != "public" && counts != "private" {
		return fmt.Errorf("%d seeds and counts %q; at least one seed is needed, and counts public or private", seeds, counts)
	}
	for skew := range strings.SplitSeq(skews, ",") {
		a, err := strconv.ParseFloat(skew, 64)
		if err != nil {
			return err
		}
		for e := range strings.SplitSeq(epsilons, ",") {
			b := dp.Budget{Delta: 1e-5, Accountant: dp.PLD}
			if b.Epsilon, err = strconv.ParseFloat(e, 64); err != nil {
				return err
			}
			o := tasks.DefaultOptions(b)
			o.Steps = steps
			if err := row(w, a, o, seeds, counts == "public", users); err != nil {
				return err
			}
		}
	}
	return nil
}

// row prints the figures of one skew and one ε.
func row(w io.Writer, skew float64, o tasks.Options, seeds int, public bool, users int) error {
	shape := generate.PaperTasks(skew)
	shape.Users = users
	rmse := make([][2][]float64, len(exponents))
	var st dp.Statement
	for seed := range seeds {
		data, err := generate.NewTasks(shape, uint64(seed)+1)
		if err != nil {
			return err
		}
		split, err := split.Divide(data.Set, split.Params{Test: test, Seed: uint64(seed) + 1})
		if err != nil {
			return err
		}
		rows := split.Train.ByUser()
		t := &tasks.Set{Count: shape.Tasks, Dim: shape.Dim, X: data.X}
		for u := range shape.Users {
			items, values := rows.Row(u)
			t.Rows = append(t.Rows, model.Ratings{Items: items, Values: values})
		}
		o.Counts = nil
		if public {
			for _, q := range data.Rates {
				o.Counts = append(o.Counts, q*(1-test)*float64(shape.Users))
			}
		}
		for k, mu := range exponents {
			o.Exponent = mu
			for way, learn := range []func(*tasks.Set, tasks.Options, entropy.Source) (*tasks.Regressions, error){tasks.Solve, tasks.Descend} {
				f, err := learn(t, o, entropy.System())
				if err != nil {
					return err
				}
				st = f.Statement
				rmse[k][way] = append(rmse[k][way], measure(f, data, split.Test))
			}
		}
	}
	var text strings.Builder
	fmt.Fprintf(&text, "skew %v, counts %s, %v\n", skew, map[bool]string{true: "public", false: "private"}[public], st)
	fmt.Fprintf(&text, "  %-6s  %-16s  %s\n", "μ", "SSP", "noisy descent")
	for k, mu := range exponents {
		fmt.Fprintf(&text, "  %-6v  %s  %s\n", mu, spread(rmse[k][0]), spread(rmse[k][1]))
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// measure returns the RMSE on the labels held out from training.
func measure(f *tasks.Regressions, data *generate.Tasks, test dataset.Ratings) float64 {
	var sum float64
	for k, y := range test.Value {
		u := int(test.User[k])
		e := float64(y) - f.Predict(int(test.Item[k]), data.X[u*data.Dim:(u+1)*data.Dim])
		sum += e * e
	}
	return math.Sqrt(sum / float64(test.Len()))
}

// spread formats mean ± standard deviation.
func spread(x []float64) string {
	var mean, square float64
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		square += (v - mean) * (v - mean)
	}
	return fmt.Sprintf("%.4f ± %.4f", mean, math.Sqrt(square/math.Max(1, float64(len(x)-1))))
}
