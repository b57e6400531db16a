package lab_test

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/effort"
)

var (
	skewFlag    = flag.String("skew", "0.5", "parameters of the power law that tasks' sizes follow; smaller is more skewed")
	epsilonFlag = flag.String("epsilon", "20", "privacy budgets of a user, at a delta of 1e-5")
	seedsFlag   = flag.Int("seeds", 2, "data sets, each with a split of its own")
	countsFlag  = flag.String("counts", "public,private", "public: expected task sizes, which are numbers of the generator; private: noisy ones, paid for")
	usersFlag   = flag.Int("users", 2000, "users")
	stepsFlag   = flag.Int("steps", 5, "steps of gradient descent")
)

// The figure of appendix C: test RMSE by the exponent of the regressions' weights, as mean ± deviation over seeds, with fresh noise.
// The flags have the sizes of the paper, and the defaults are small. Unit labels and predictions are at most 2 apart.
func TestSkewedTasks(t *testing.T) {
	effort.NotShort(t, "dozens of fits")
	for _, counts := range strings.Split(*countsFlag, ",") {
		for _, skew := range numbersOf(t, *skewFlag) {
			for _, epsilon := range numbersOf(t, *epsilonFlag) {
				figureOf(t, counts, skew, epsilon)
			}
		}
	}
}

func figureOf(t *testing.T, counts string, skew, epsilon float64) {
	t.Helper()
	exponents := []float64{0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1}
	rmse := make([][2][]float64, len(exponents))
	o := DefaultTaskOptions(pld(epsilon))
	o.Steps = *stepsFlag
	var statement string
	for seed := range *seedsFlag {
		x := newTaskData(t, skew, *usersFlag, uint64(seed)+1)
		switch counts {
		case "public":
			o.Counts = x.sizes
		case "private":
			o.Counts = nil
		default:
			t.Fatalf("counts are %q; they are public or private", counts)
		}
		for k, mu := range exponents {
			o.Exponent = mu
			for way, learn := range []func(*TaskSet, TaskOptions, entropy.Source) (*TaskRegressions, error){SolveTasks, DescendTasks} {
				f, err := learn(x.tasks, o, entropy.System())
				if err != nil {
					t.Fatal(err)
				}
				statement = f.Statement.String()
				if got := x.rmse(f); got > 0 && got < 2 {
					rmse[k][way] = append(rmse[k][way], got)
				} else {
					t.Errorf("counts %s, μ = %v: RMSE %v", counts, mu, got)
				}
			}
		}
	}
	for _, want := range []string{fmt.Sprintf("epsilon=%g", epsilon), "delta=1e-05", "unit=user", "accountant=pld", "noise=float-gaussian"} {
		if !strings.Contains(statement, want) {
			t.Errorf("%s lacks %s", statement, want)
		}
	}
	text := fmt.Sprintf("skew %v, counts %s, %s\n  %-6s  %-16s  %s\n", skew, counts, statement, "μ", "SSP", "noisy descent")
	for k, mu := range exponents {
		text += fmt.Sprintf("  %-6v", mu)
		for _, list := range rmse[k] {
			mean, deviation := stat.MeanStdDev(list, nil)
			text += fmt.Sprintf("  %.4f ± %.4f", mean, deviation)
		}
		text += "\n"
	}
	t.Log("\n" + text)
}

func numbersOf(t *testing.T, text string) (list []float64) {
	t.Helper()
	for word := range strings.SplitSeq(text, ",") {
		x, err := strconv.ParseFloat(word, 64)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, x)
	}
	return list
}
