package cond_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
)

func regressionFile(t *testing.T, text string, o read.Options) (*dataset.Set, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "table.csv")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return read.Open(context.Background(), path, o)
}

// By hand: x has the values 1, 2, 3 and a missing one, so mean 2 and deviation √(2/3); colour has
// three values; z is constant. The label of row 3 is above the scale, the label of row 5 is missing.
func TestOpenRegression(t *testing.T) {
	const rows = "id,x,colour,price,z\na,1,red,10,7\nb,3,blue,20,7\nc,,red,999,7\nd,2,,30,7\ne,5,green,,7\n"
	for _, comma := range []string{",", "\t", ";"} {
		o := read.Options{Columns: read.Columns{Label: "price", User: "id"}, Min: new(0.), Max: new(100.)}
		set, err := regressionFile(t, strings.ReplaceAll(rows, ",", comma), o)
		if err != nil {
			t.Fatal(err)
		}
		if want := []string{"x", "colour=blue", "colour=red"}; !slices.Equal(set.Profile.Columns, want) {
			t.Errorf("columns %v, want %v", set.Profile.Columns, want)
		}
		d := math.Sqrt(2. / 3)
		for u, want := range [][]float64{{-1 / d, 0, 1}, {1 / d, 1, 0}, {0, 0, 1}, {0, 0, 0}} {
			for j, v := range set.Profile.Row(u) {
				if math.Abs(v-want[j]) > 1e-12 {
					t.Errorf("row %d has %v, want %v", u, set.Profile.Row(u), want)
					break
				}
			}
		}
		if !slices.Equal(set.Value, []float32{10, 20, 100, 30}) || !slices.Equal(set.UserIDs, []string{"a", "b", "c", "d"}) || !slices.Equal(set.ItemIDs, []string{"price"}) {
			t.Errorf("labels %v of %v about %v", set.Value, set.UserIDs, set.ItemIDs)
		}
		// (1/4)·Σx² of x = -1/d, 1/d, 0, 0, and of red, in two rows of four.
		if m := set.Profile.Moments; math.Abs(m[0]-2/(d*d)/4) > 1e-12 || math.Abs(m[8]-0.5) > 1e-12 || math.Abs(m[2]+1/d/4) > 1e-12 {
			t.Errorf("moments %v", m)
		}
	}
}

// A folder of parts is no regression: rows of other parts would be left out without a word.
func TestRegressionIsOneFile(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"part-0000.csv", "part-0001.csv"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x,price\n1,10\n2,20\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	o := read.Options{Columns: read.Columns{Label: "price"}, Min: new(0.), Max: new(100.)}
	if _, err := read.Open(t.Context(), dir, o); err == nil || !strings.Contains(err.Error(), "part-0001.csv has more of the same rows; put all rows into one file") {
		t.Errorf("two parts: %v", err)
	}
	o.Form.Member = "part-0001.csv"
	if set, err := read.Open(t.Context(), dir, o); err != nil || set.Users != 2 {
		t.Errorf("one of them: %v", err)
	}
}

func TestOpenRegressionRefuses(t *testing.T) {
	scale := func(o read.Options) read.Options {
		o.Min, o.Max = new(0.), new(100.)
		return o
	}
	label := scale(read.Options{Columns: read.Columns{Label: "y"}})
	for _, c := range []struct {
		text, want string
		o          read.Options
	}{
		{"x,y\n1,2\n2,3\n", "labels are private, and their range is not read off them; say --rating-min and --rating-max", read.Options{Columns: read.Columns{Label: "y"}}},
		{"x,z\n1,2\n", `no column is called "y", which is said to be the label; there are x, z`, label},
		{"x,x,y\n1,2,3\n", `two columns are called "x"`, label},
		{"x,y\n1,2\n1\n", "table.csv:3: ", label},
		{"x,y\n1,2\n2,much\n", "table.csv:3: the label, in the column y, is no number", label},
		{"x,y\n1,\n", "no row has a label", label},
		{"", "the file is empty", label},
		{"x,y\n1,2\n1,3\n", "there is nothing to learn from", label},
		{"i,x,y\na,1,2\na,2,3\n", `"a" stands twice in the column i`, scale(read.Options{Columns: read.Columns{Label: "y", User: "i"}})},
		{"x,y\n1,2\n2,3\n", "split.by random is needed", scale(read.Options{Columns: read.Columns{Label: "y"}, Times: true})},
	} {
		_, err := regressionFile(t, c.text, c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "much") {
			t.Errorf("%q: the message shows a label: %v", c.text, err)
		}
	}
	if _, err := read.ParseColumns("label=y,item=x"); err == nil {
		t.Error("a label beside an item passes")
	}
	if c, err := read.ParseColumns("label=y,user=i"); err != nil || c.Label != "y" || c.User != "i" {
		t.Error(c, err)
	}
}

// A made-up sample of Criteo's log has 17 fields of words. One of them has 60 values and is hashed
// into 50 buckets.
func TestOpenCriteo(t *testing.T) {
	var b strings.Builder
	for i := range 120 {
		sale, amount := i%2, "-1"
		if sale == 1 {
			amount = fmt.Sprint(10 * i) // up to 1190: above 400 it counts as 400
		}
		f := []string{fmt.Sprint(sale), amount, "-1", fmt.Sprint(1e9 + i), fmt.Sprint(i % 7), fmt.Sprint(i)}
		for k := range 17 {
			v := fmt.Sprintf("h%d", i%(2+k%3))
			if k == 12 {
				v = fmt.Sprintf("p%d", i)
			}
			if i == 5 {
				v = "-1"
			}
			f = append(f, v)
		}
		b.WriteString(strings.Join(f, "\t") + "\n")
	}
	set, err := regressionFile(t, b.String(), read.Options{Columns: read.Columns{Label: "SalesAmountInEuro"}})
	if err != nil {
		t.Fatal(err)
	}
	if set.Users != 60 || set.Min != 0 || set.Max != 400 {
		t.Errorf("%d examples on %v to %v, want 60 on 0 to 400", set.Users, set.Min, set.Max)
	}
	if slices.Max(set.Value) != 400 || set.Value[0] != 10 {
		t.Errorf("labels %v", set.Value)
	}
	of := map[string]int{}
	for _, c := range set.Profile.Columns {
		name, _, _ := strings.Cut(c, "=")
		of[name]++
	}
	if of["nb_clicks_1week"] != 1 || of["product_price"] != 1 || of["Sale"]+of["click_timestamp"]+of["time_delay_for_conversion"] != 0 || len(of) < 10 || len(of) > 19 {
		t.Errorf("features of the fields %v", of)
	}
	// 59 values in 50 buckets: some share one, and no bucket that is empty is a feature.
	if n := of["product_title"] + of["product_id"] + of["product_country"]; n < 30 {
		t.Errorf("%d features of the products", n)
	}
}
