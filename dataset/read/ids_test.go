package read

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// Every door reads one id in one way. The ids follow from the rule in [dataset.ParseID].
func TestIDsHaveOneRule(t *testing.T) {
	type floats struct {
		User *float64 `parquet:"user,optional"`
		Item float32  `parquet:"item"`
	}
	scale := Options{Min: new(1.), Max: new(5.)}
	want := []string{"7", "8"}
	for name, c := range map[string]struct {
		file string
		o    Options
	}{
		"CSV":             {ownFile(t, "a.csv", "user,item\n7,1\n 7.0 ,2\n\ufeff7,3\n8,1\n"), Options{}},
		"quoted":          {ownFile(t, "a.csv", "user,item\n\" 7\",1\n\"7.0\",2\n\"\ufeff7\",3\n8,1\n"), Options{}},
		"joined files":    {ownFile(t, "a.csv", "\ufeffuser,item\n7,1\n7,2\n\ufeff7,3\n8,1\n"), Options{}},
		"JSON":            {ownFile(t, "a.jsonl", "{\"user\":7,\"item\":1}\n{\"user\":7.0,\"item\":2}\n{\"user\":\" 7\",\"item\":3.0}\n{\"user\":\"8.0\",\"item\":1e0}\n"), Options{}},
		"Parquet":         {parquetFile(t, []floats{{new(7.), 1}, {new(7.), 2}, {new(7.), 3}, {new(8.), 1}}), Options{}},
		"a test file":     {ownFile(t, "a.csv", "user,item\n7,1\n7,2\n"), Options{Test: ownFile(t, "b.csv", "user,item\n7.0,3\n8.0,1\n")}},
		"bad rows":        {ownFile(t, "a.csv", "user,item\n7,1\nNA,2\n7,2\n7,None\n<NA>,2\n\\N,1\nnull,1\nnan,1\n7,NaT\n7,3\n8,1\n1.8446744073709552e+19,1\n"), Options{BadRows: BadRowsSkip}},
		"bad JSON":        {ownFile(t, "a.jsonl", "{\"user\":7,\"item\":1}\n{\"user\":7.5,\"item\":1}\n{\"user\":null,\"item\":1}\n{\"user\":true,\"item\":1}\n{\"user\":\"NaN\",\"item\":1}\n{\"user\":7,\"item\":2}\n{\"user\":7,\"item\":3}\n{\"user\":8,\"item\":1}\n"), Options{BadRows: BadRowsSkip}},
		"Parquet's nulls": {parquetFile(t, []floats{{new(7.), 1}, {nil, 2}, {new(math.NaN()), 3}, {new(7.), 2}, {new(7.5), 2}, {new(float64(1 << 53)), 2}, {new(7.), 3}, {new(8.), 1}, {new(8.), float32(math.NaN())}, {new(8.), 1 << 24}}), Options{BadRows: BadRowsSkip}},
	} {
		c.o.Duplicates = DuplicatesLast
		set := open(t, c.file, c.o)
		if !slices.Equal(set.UserIDs, want) || !slices.Equal(set.ItemIDs, []string{"1", "2", "3"}) {
			t.Errorf("%s: users %q, items %q; want %q and 1 to 3", name, set.UserIDs, set.ItemIDs, want)
		}
	}
	memory, err := FromRatings("m", []Rating{{User: " 7", Item: "1", Value: 1}, {User: "7.0", Item: "2", Value: 1}, {User: "8", Item: "1.0", Value: 1}}, scale)
	if err != nil || !slices.Equal(memory.UserIDs, want) || !slices.Equal(memory.ItemIDs, []string{"1", "2"}) {
		t.Errorf("in memory: %+v, %v", memory, err)
	}
	list, err := IDs(ownFile(t, "ids.txt", "\ufeff7.0\r\n \ufeff8\r\n\n"), false)
	if err != nil || !slices.Equal(list, want) {
		t.Errorf("a list: %q, %v", list, err)
	}
	for text, want := range map[string]string{"7\n\n8\n": ":2: the line is empty", "7\n8\n7.0\n": `:3: the id "7" stands on line 1 already`, "7\nNA\n": ":2: an id is missing", "\n": "holds no id", "7\n\xe9\n": ":2: an id \"\\xe9\" is not UTF-8"} {
		if got, err := IDs(ownFile(t, "ids.txt", text), false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v; want an error with %q", text, got, err, want)
		}
	}
}

// An id without a value is an error with its row and its column.
func TestMissingIDs(t *testing.T) {
	t.Parallel()
	openFails(t, ownFile(t, "a.csv", "user,item\n7,1\nNA,2\n8,None\n"), Options{}, `a.csv:3: user is missing: "NA"`)
	openFails(t, ownFile(t, "a.csv", "user,item\n7,1\nNA,2\n8,None\n"), Options{}, `a.csv:4: item is missing: "None"`)
	openFails(t, ownFile(t, "a.jsonl", "{\"user\":7.5,\"item\":1}\n{\"user\":7,\"item\":2}\n"), Options{}, `a.jsonl:1: "user": "7.5" is a float that is no exact integer`)
}
