package command

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/internal/agreement"
)

// The owner alone is told, with the line, which records of a file cannot be used. The client is
// made all the same. Three of the five ratings below are left.
func TestOwnerIsToldWhatIsLeftOut(t *testing.T) {
	e, err := agreement.Open(published(t, "algorithm=lfl-sgdmf rounds=5"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ratings.csv")
	for _, c := range []struct {
		rows string
		most int // that are left
		told []string
	}{
		{"7,1,9\n7,2,3\n7,3,4\n7,2,5\n7,4,1\n", 3, []string{`"file":"` + file + `","line":2`, `"line":3`, "again on line 5"}},
		{"", 0, []string{"takes part like all others, with an empty record"}},
		{strings.Repeat("7,1,x\n", 30), 0, []string{`"line":21`, `"more":10`}},
	} {
		if err := os.WriteFile(file, []byte("userId,movieId,rating\n"+c.rows), 0o600); err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		log := zerolog.New(&said)
		d := &clientHost{clientCmd: &clientCmd{Data: file, User: "7"}}
		p, err := d.party(t.Context(), e, clientSpec{holding: algorithm.PartyData{User: "7"}}, &log)
		if err != nil {
			t.Fatal(err)
		}
		if p.Ratings > c.most {
			t.Errorf("trains on %d ratings, want at most %d: some may be held out", p.Ratings, c.most)
		}
		for _, text := range c.told {
			if !strings.Contains(said.String(), text) {
				t.Errorf("the owner is told\n%s\nwant %s in it", said.String(), text)
			}
		}
	}
}
