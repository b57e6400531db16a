package command

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestThreeShops runs the nine commands of the page, as TestThreeMachines does, with the files that the page says to prepare. Each
// shop ends with its result.
func TestThreeShops(t *testing.T) {
	long(t)
	const path, heading = "../../../docs/three-organisations.md", "## Three shops in nine commands\n"
	_, page, found := strings.Cut(readFile(t, path), heading)
	block, _, ends := strings.Cut(page, "\n## ")
	_, deal, dealt := strings.Cut(block, "The shell can deal a pilot to three shops:\n")
	deal, _, until := strings.Cut(deal, "\nThe first four commands")
	if n := strings.Count(block, "\nshops$ "); !found || !ends || !dealt || !until || n != 9 {
		t.Fatalf("%s has %d commands below %q, or lacks a sentence of it", path, n, heading)
	}
	files, err := filepath.Abs(demo)
	if err != nil {
		t.Fatal(err)
	}
	p := newPage(t)
	p.buildFedsim()
	prepare := "set -e; cp " + files + "/ratings.csv pilot.csv; sed 1s/movieId/item/ " + files + "/items/movies.csv > items.csv\n" + deal
	if out, err := p.shell("shops", prepare).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	p.plays(path, heading)
	for _, shop := range []string{"north", "south", "west"} {
		readFile(t, p.root, "shops", shop, "result", "user_embeddings.npy")
	}
}
