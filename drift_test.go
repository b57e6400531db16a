package fedsim_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fedsim/fedsim"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/results"
	"github.com/fedsim/fedsim/results/recommend"
)

// TestPredictGivesThePrintedFigure is an outside reader. It asks the folder of a run for predictions of the pairs that split.csv
// calls test, takes their stars from the file of the data, and computes the RMSE. Every door gives the figure that is printed, to
// the last digit: the screen, summary.json, the last round, predictions.csv, and the errors that fedsim compare reads.
func TestPredictGivesThePrintedFigure(t *testing.T) {
	dir := t.TempDir()
	var text strings.Builder
	text.WriteString("user,item,rating,timestamp\n")
	for u := range 20 {
		for j := range 16 {
			fmt.Fprintf(&text, "%d,%d,%d,%d\n", u, j, 2+(u*7+j*3)%2+2*((j+u)%2), 86_400*(j%2)+10*j)
		}
	}
	sittings := filepath.Join(dir, "ratings.csv")
	if err := os.WriteFile(sittings, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, algorithm := range []string{"ssp-c", "private-item-bias", "vfl-sgdmf"} {
		t.Run(algorithm, func(t *testing.T) { readAgain(t, algorithm, sittings, filepath.Join(dir, "runs")) })
	}
	t.Run("real ratings", func(t *testing.T) {
		effort.LongOnly(t, "a hundred thousand ratings take seconds")
		const real = "../shared/data/ml-latest-small"
		if _, err := os.Stat(real); err != nil {
			t.Skipf("MovieLens latest-small is not there: %v", err)
		}
		readAgain(t, "ssp-c", real, filepath.Join(dir, "runs"))
	})
}

func readAgain(t *testing.T, algorithm, data, out string) {
	t.Helper()
	r, err := fedsim.Run(t.Context(), fedsim.Options{Keep: true, Predictions: true, Settings: map[string]string{
		"algorithm": algorithm, "data": data, "rating-min": "0.5", "rating-max": "5", "baselines": "quick", "epsilon": "5", "out": out, "name": algorithm + filepath.Base(data),
	}})
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Ext(data) == "" {
		data = filepath.Join(data, "ratings.csv")
	}
	stars := make(map[[2]string]float64)
	for _, row := range readCSV(t, data) {
		if stars[[2]string{row[0], row[1]}], err = strconv.ParseFloat(row[2], 64); err != nil {
			t.Fatal(err)
		}
	}
	var users, items []string
	for _, row := range readCSV(t, filepath.Join(r.Folder, "split.csv")) {
		if row[2] == "test" {
			users, items = append(users, row[0]), append(items, row[1])
		}
	}
	finished, err := recommend.OpenTested(t.Context(), r.Folder)
	if err != nil {
		t.Fatal(err)
	}
	predicted, err := finished.PredictPairs(users, items)
	if err != nil {
		t.Fatal(err)
	}
	var squares float64
	for k, x := range predicted {
		squares += math.Pow(*x-stars[[2]string{users[k], items[k]}], 2)
	}
	want := math.Sqrt(squares / float64(len(predicted)))

	var screen bytes.Buffer
	if err = r.Print(&screen); err != nil {
		t.Fatal(err)
	}
	printed := regexp.MustCompile(`(?m)^  private model +(\d\.\d{4})`).FindStringSubmatch(screen.String())
	if printed == nil || printed[1] != fmt.Sprintf("%.4f", want) {
		t.Errorf("predictions of the test pairs have the RMSE %.4f, and printed is\n%s", want, &screen)
	}
	var kept results.Summary
	if raw, wrong := os.ReadFile(filepath.Join(r.Folder, "summary.json")); wrong != nil {
		t.Fatal(wrong)
	} else if err = json.Unmarshal(raw, &kept); err != nil {
		t.Fatal(err)
	}
	doors := map[string]float64{"summary.json": kept.TestRMSE, "the last round": r.Metrics[len(r.Metrics)-1].RMSE}
	if own, ok := kept.Baselines.Of("private_item_bias"); ok && algorithm == "private-item-bias" {
		doors["the baseline that is the run"] = own
	}
	if kept.RMSEWithDrift == nil { // the data have times: the run and every baseline have the same drift
		t.Error("summary.json has no error with drift")
	}
	for _, b := range kept.Baselines {
		if v, ok := kept.BaselinesWithDrift.Of(b.Name); !ok || v == b.Value {
			t.Errorf("with drift the baseline %s has %v, %t, and %v without", b.Name, v, ok, b.Value)
		}
	}
	var n, sum float64
	if err = finished.EachError(func(_ int, d float64) { n, sum = n+1, sum+d*d }); err != nil {
		t.Fatal(err)
	}
	doors["fedsim compare"] = math.Sqrt(sum / n)
	sum = 0
	rows := readCSV(t, filepath.Join(r.Folder, "predictions.csv"))
	for _, row := range rows {
		x, wrong := strconv.ParseFloat(row[3], 64)
		if wrong != nil {
			t.Fatal(wrong)
		}
		sum += math.Pow(x-stars[[2]string{row[0], row[1]}], 2)
	}
	doors["predictions.csv"] = math.Sqrt(sum / float64(len(rows)))
	for door, got := range doors {
		if !(math.Abs(got-want) < 1e-9) {
			t.Errorf("%s has the RMSE %v; predictions of the test pairs have %v", door, got, want)
		}
	}
}

// row is a line of the first screen's table, and noted a row that ends with a note.
var (
	row   = regexp.MustCompile(`^  [a-z_ ]+ \d\.\d{4}`)
	noted = regexp.MustCompile(`\d\.\d{4} +[a-z][a-z ,ε]+$`)
)

// TestFirstScreenFits: with times and without, a run of the default algorithm prints at most twenty lines of 80 characters.
func TestFirstScreenFits(t *testing.T) {
	effort.NotShort(t, "whole runs of the default algorithm")
	t.Chdir(t.TempDir())
	t.Setenv("COLUMNS", "80")
	for _, data := range []string{"synthetic:small", "synthetic:moving-100"} {
		r, err := fedsim.Run(t.Context(), fedsim.Options{Keep: true, Settings: map[string]string{"data": data}})
		if err != nil {
			t.Fatal(err)
		}
		var screen bytes.Buffer
		if err = r.Print(&screen); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(screen.String()), "\n")
		if len(lines) > 20 || strings.Contains(screen.String(), "with drift") != (data == "synthetic:moving-100") {
			t.Errorf("%s: %d lines:\n%s", data, len(lines), &screen)
		}
		for _, line := range lines { // a figure without a note is for people who know the answer
			if row.MatchString(line) && !noted.MatchString(line) {
				t.Errorf("%s: a figure without a word on what it is: %s", data, line)
			}
			if utf8.RuneCountInString(line) > 80 {
				t.Errorf("%s: a line of more than 80 characters: %s", data, line)
			}
		}
	}
}

// readCSV reads the rows of a file below its header.
func readCSV(t *testing.T, path string) [][]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // it is only read
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return rows[1:]
}
