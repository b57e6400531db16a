package command

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every verb that reads ratings warns once of what reading them left out, before it begins.
func TestEveryDoorTellsWhatReadingLeftOut(t *testing.T) {
	dir := t.TempDir()
	ratings := filepath.Join(dir, "r.csv")
	text := "user,item,rating,timestamp\n3,4,,1000000000\n"
	for u := range 40 {
		for i := range 12 {
			text += fmt.Sprintf("%d,%d,%d,%d\n", u, (u+3*i)%36, 1+(u*i)%5, 1_000_000_000+1000*((u+7*i)%100))
		}
	}
	if err := os.WriteFile(ratings, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for door, begins := range map[string]string{
		"run --sessions 2 --total-epsilon 20 --out": "session 1 of 2",
		"run --out":       "ssp-c 1/1",
		"plan --set out=": "",
		"tune --over statistics.user-bias-ridge=1..9 --trials 2 --set split.validation=0.1 --out": "candidates 1",
		"attack promote --runs 2 --liars 0.1 --epsilon inf --set out=":                            "",
		"sweep --epsilon 5,10 --out": "", // whose runs have read the data
	} {
		args := strings.Fields(door)
		if last := len(args) - 1; strings.HasSuffix(door, "=") {
			args[last] += filepath.Join(dir, args[0])
		} else {
			args = append(args, filepath.Join(dir, args[0]))
		}
		code, out, errs := call(t, append(args, "--data", ratings, "--rounds", "1", "--bad-rows", "skip", "--rating-min", "1", "--rating-max", "5")...)
		before, after, _ := strings.Cut(errs, "warning: 1 row cannot be used and is left out")
		if code != 0 || after == "" || strings.Contains(after, "1 row cannot") || begins != "" && strings.Contains(before, begins) {
			t.Errorf("%s: exit code %d, without one warning of the row at the start\n%s%s", door, code, out, errs)
		}
	}
	code, out, errs := call(t, "recommend", "--run", filepath.Join(dir, "run", "ssp-c-r.csv-eps10-seed1"), "--user", "3")
	if code != 0 || strings.Contains(errs, "1 row cannot") {
		t.Errorf("the run's own data: exit code %d, or a warning of the row\n%s%s", code, out, errs)
	}
	other := filepath.Join(dir, "other.csv")
	if err := os.WriteFile(other, []byte("user,item,rating\n3,4,\n3,5,4\n3,6,2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs = call(t, "recommend", "--run", filepath.Join(dir, "run", "ssp-c-r.csv-eps10-seed1"), "--user", "3", "--data", other)
	if code != 0 || strings.Count(errs, "warning: 1 row cannot be used and is left out") != 1 {
		t.Errorf("other data: exit code %d, without one warning of the row\n%s%s", code, out, errs)
	}
	whole := filepath.Join(dir, "whole.csv")
	if err := os.WriteFile(whole, []byte(strings.Replace(text, "3,4,,1000000000\n", "", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs = call(t, "data", "raters", whole, "--public-users", "2", "--out", filepath.Join(dir, "raters.csv"))
	if code != 0 || strings.Count(errs, "warning: the file states no rating scale") != 1 {
		t.Errorf("data raters: exit code %d, without one warning of the scale\n%s%s", code, out, errs)
	}
}

// Every verb takes start-from last as the newest run in out.
func TestEveryDoorStartsFromTheNewestRun(t *testing.T) {
	out := t.TempDir()
	of := []string{"--data", "synthetic:small-100", "--rounds", "1", "--set", "out=" + out}
	if code, _, errs := call(t, append([]string{"run", "--name", "first"}, of...)...); code != 0 {
		t.Fatal(errs)
	}
	for _, door := range []string{
		"plan", "attack reconstruction --targets 2 --epsilon 5", "sweep --epsilon 5,10 --dry-run --out " + out,
		"tune --over statistics.user-bias-ridge=1..9 --trials 2 --set split.validation=0.1 --name second",
	} {
		code, text, errs := call(t, append(append(strings.Fields(door), "--start-from", "last"), of...)...)
		if code != 0 {
			t.Errorf("%s: exit code %d\n%s%s", door, code, text, errs)
		}
	}
}
