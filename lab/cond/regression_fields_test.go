package cond_test

import (
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	_ "github.com/fedsim/fedsim/lab/cond/regression" // reads tables of regressions
)

// hashed is the value of a word of a private field: FNV-1a of the name of the field, a zero byte and the word, in 1,000 values.
func hashed(name, word string) int32 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name + "\x00" + word))
	return int32(h.Sum64() % 1000)
}

// The table by hand: cities are in text order, with one more value for the missing one; ages are in
// bins, and 32 numbers have a bin each; a constant column is no field. Private columns are in no
// column and no public field.
func TestFieldsOfATable(t *testing.T) {
	var text strings.Builder
	text.WriteString("city,age,same,secret,pay\n")
	for i := range 32 {
		city := []string{"Oslo", "Bern", "", "Rome"}[i%4]
		fmt.Fprintf(&text, "%s,%d,x,s%d,%d\n", city, 20+i, i%3, i)
	}
	file := filepath.Join(t.TempDir(), "t.csv")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	open := func(fields bool, columns string) *dataset.Set {
		t.Helper()
		c, err := read.ParseColumns(columns)
		if err != nil {
			t.Fatal(err)
		}
		set, err := read.Open(t.Context(), file, read.Options{Columns: c, Min: new(0.), Max: new(40.), Fields: fields})
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	set := open(true, "label=pay,private=secret")
	p := set.Profile
	if len(p.Fields) != 2 || p.Fields[0].Name != "city" || p.Fields[1].Name != "age" || p.Columns != nil || p.X != nil {
		t.Fatalf("fields are %v, columns %v", p.Fields, p.Columns)
	}
	if f := p.Fields[0]; f.Size != 4 || !slices.Equal(f.Values[:4], []int32{1, 0, 3, 2}) {
		t.Errorf("cities are %v of %d", f.Values[:4], f.Size)
	}
	if f := p.Fields[1]; f.Size != 33 || f.Values[0] != 0 || f.Values[1] != 1 || f.Values[31] != 31 {
		t.Errorf("ages are %v of %d", f.Values, f.Size)
	}
	if f := p.Private; len(f) != 1 || f[0].Size != 1000 {
		t.Errorf("private fields are %v", f)
	} else {
		for i, v := range f[0].Values {
			if want := hashed("secret", fmt.Sprint("s", i%3)); v != want {
				t.Errorf("the private word of row %d is %d, want %d", i, v, want)
			}
		}
	}
	both := open(false, "label=pay,private=secret")
	if both.Digest != set.Digest {
		t.Error("the digest depends on which form is asked for")
	}
	if slices.ContainsFunc(both.Profile.Columns, func(name string) bool { return strings.HasPrefix(name, "secret") }) {
		t.Errorf("a private column is among the features %v", both.Profile.Columns)
	}
	if open(false, "label=pay").Digest == set.Digest {
		t.Error("the digest does not tell private columns from public ones")
	}
}

func TestPrivateColumnsAreRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "t.csv")
	if err := os.WriteFile(file, []byte("a,b,pay\n1,2,3\n2,3,4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for columns, want := range map[string]string{
		"label=pay,private=c":       "no column is called",
		"label=pay,private=pay":     "it is no feature",
		"label=pay,private=b+other": "no column is called \"other\"",
	} {
		c, err := read.ParseColumns(columns)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = read.Open(t.Context(), file, read.Options{Columns: c, Min: new(0.), Max: new(9.)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", columns, err, want)
		}
	}
	if _, err := read.ParseColumns("private=b"); err == nil || !strings.Contains(err.Error(), "label=NAME") {
		t.Errorf("private columns without a label: %v", err)
	}
}

// Labels are 0.8·e1 + 0.6·e2·e3 + noise with effects of variance 1 by construction, so their variance
// is 0.64 + 0.36 + 0.01, apart from the random draw of the values' effects. The second term is
// uncorrelated with any one field.
func TestSyntheticFields(t *testing.T) {
	set, err := read.Open(t.Context(), "synthetic:fields-5000-private", read.Options{Fields: true})
	if err != nil {
		t.Fatal(err)
	}
	p := set.Profile
	if set.Users != 5000 || len(p.Fields) != 9 || len(p.Private) != 8 || set.Min != -6 || set.Max != 6 {
		t.Fatalf("%d examples, %d fields and %d private, labels from %v to %v", set.Users, len(p.Fields), len(p.Private), set.Min, set.Max)
	}
	var mean, square float64
	for _, v := range set.Value {
		mean += float64(v) / 5000
		square += float64(v) * float64(v) / 5000
	}
	if variance := square - mean*mean; variance < .5 || variance > 2 {
		t.Errorf("labels have the variance %v", variance)
	}
	for _, f := range append(p.Fields, p.Private...) {
		if slices.Min(f.Values) < 0 || int(slices.Max(f.Values)) >= f.Size {
			t.Errorf("field %s has values from %d to %d; its size is %d", f.Name, slices.Min(f.Values), slices.Max(f.Values), f.Size)
		}
	}
	if _, err := read.Open(t.Context(), "synthetic:fields-none", read.Options{}); err == nil || !strings.Contains(err.Error(), "number of examples") {
		t.Errorf("error is %v", err)
	}
}
