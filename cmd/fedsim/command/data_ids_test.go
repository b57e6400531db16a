package command

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/fedsim/fedsim/internal/cli"
)

// The list is in the order of a simulation's clients: numbers as numbers.
func TestDataIDs(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"ratings.csv": "userId,movieId,rating\n10,7,3\n9,7,4\n", "movies.csv": "movieId,title,genres\n7,Seven (1995),Crime\n30,Heat (1995),Crime\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for of, want := range map[string]string{"users": "9\n10\n", "items": "7\n30\n"} {
		if code, out, stderr := call(t, "data", "ids", dir, "--of", of); code != cli.Done || out != want {
			t.Errorf("ids of %s: exit code %d, %q, %s; want %q", of, code, out, stderr, want)
		}
	}
}
