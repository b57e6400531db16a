package command

import (
	"os"
	"path/filepath"
	"strings"
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
	bad := filepath.Join(dir, "bad.csv")
	if err := os.WriteFile(bad, []byte("user,item,rating\na\x00,7,3\nb,7,4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, stderr := call(t, "data", "ids", bad); code != cli.Done || out != "b\n" || !strings.Contains(stderr, "warning: 1 rows do not count; the first: "+bad+":2: ") {
		t.Errorf("with a row that cannot be used: exit code %d, %q, %s", code, out, stderr)
	}
}
