package results_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/fedsim/fedsim/internal/export"
)

// Lists hold a line for each item of a user's list, with ids as they are.
func TestLists(t *testing.T) {
	lines := []export.Line{
		{User: "ann, the first", Rank: 1, Item: " 007", Title: "A \"quote\"", Score: 7.25, Predicted: 4.5, By: "fit"},
		{User: "ben", Rank: 1, Item: "8", Score: -2, Predicted: -1e-9, By: "popularity"},
	}
	written := func(format string) []byte {
		t.Helper()
		var b bytes.Buffer
		l, err := export.NewLists(&b, format)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range lines {
			if err = l.Write([]export.Line{x}); err != nil {
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
	got, err := parquet.Read[export.Line](bytes.NewReader(b), int64(len(b)))
	if d := cmp.Diff(lines, got); err != nil || d != "" {
		t.Errorf("%v\n%s", err, d)
	}
	if _, err = export.NewLists(new(bytes.Buffer), "xml"); err == nil {
		t.Error("xml is a format")
	}
}
