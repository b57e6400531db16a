package lab_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	_ "github.com/fedsim/fedsim/internal/families" // the algorithms that there are
	"github.com/fedsim/fedsim/internal/forecast"
	"github.com/fedsim/fedsim/internal/lineage"
	"github.com/fedsim/fedsim/lab/sessions"
)

// settled has 40 users and 12 items that are all there from the start: the sessions of a study differ in their ratings alone.
func settled() *dataset.Set {
	s := &dataset.Set{Name: "settled", Min: 1, Max: 5, Ratings: dataset.Ratings{Users: 40, Items: 12}}
	for u := range int32(40) {
		s.UserIDs = append(s.UserIDs, fmt.Sprint("u", u))
		for i := range int32(12) {
			moment := float64((i+12-u%12)%12*40 + u)
			s.User, s.Item, s.Value, s.Times = append(s.User, u), append(s.Item, i), append(s.Value, float32(1+(u*i)%5)), append(s.Times, moment)
		}
	}
	for i := range 12 {
		s.ItemIDs, s.Titles = append(s.ItemIDs, fmt.Sprint("i", i)), append(s.Titles, "")
	}
	return s
}

// A simulation draws noise by its seed and its session. The sessions of an arm never have both in common: the releases of two of
// them would differ by ratings without noise, and no ε would hold for both together.
func TestSessionsOfAnArmShareNoNoise(t *testing.T) {
	var list []config.Setting
	for key, value := range map[string]string{"algorithm": "lfl-sgdmf", "rounds": "2", "delta": "1e-3", "baselines": "quick"} {
		list = append(list, config.Setting{Key: key, Value: value, Origin: key})
	}
	c, err := config.Resolve(list)
	if err != nil {
		t.Fatal(err)
	}
	r, err := sessions.Run(t.Context(), c, settled(), sessions.Design{Sessions: 3, Total: 9, Shares: forecast.Equal, Seeds: 1}, t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]string)
	for _, p := range r.Points {
		if p.Seed != 1 {
			t.Errorf("session %d %s is of seed %d of the study", p.Session, p.Arm, p.Seed)
		}
		if p.Arm == sessions.Once {
			continue // one session
		}
		record, err := lineage.Read(p.Folder)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(p.Folder, "config.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		seed := regexp.MustCompile(`(?m)^seed: (\d+)$`).FindSubmatch(text)
		if seed == nil {
			t.Fatalf("no seed in\n%s", text)
		}
		noise := fmt.Sprintf("%s of seed %s", record.Sessions[len(record.Sessions)-1].Session, seed[1])
		if before, ok := seen[noise]; ok && before != p.Folder { // the first session belongs to two arms
			t.Errorf("%s and %s have the noise of session %s", before, p.Folder, noise)
		}
		seen[noise] = p.Folder
	}
	if len(seen) != 5 {
		t.Errorf("%d sessions with noise, want 5", len(seen))
	}
}
