package export

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
)

// Lists hold a line for each item of a user's list, with ids as they are.
func TestLists(t *testing.T) {
	lines := []Line{{"ann, the first", 1, " 007", "A \"quote\"", 7.25, 4.5, "fit"}, {"ben", 1, "8", "", -2, -1e-9, "popularity"}}
	written := func(format string) []byte {
		t.Helper()
		var b bytes.Buffer
		l, err := NewLists(&b, format)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range lines {
			if err = l.Write([]Line{x}); err != nil {
				t.Fatal(err)
			}
		}
		if err = l.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	want := "user,rank,item,title,score,predicted,by\n\"ann, the first\",1,\" 007\",\"A \"\"quote\"\"\",7.25,4.5,fit\nben,1,8,,-2,-1e-09,popularity\n"
	if got := string(written("csv")); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	b := written("parquet")
	got, err := parquet.Read[Line](bytes.NewReader(b), int64(len(b)))
	if d := cmp.Diff(lines, got); err != nil || d != "" {
		t.Errorf("%v\n%s", err, d)
	}
	if _, err = NewLists(new(bytes.Buffer), "xml"); err == nil {
		t.Error("xml is a format")
	}
}
