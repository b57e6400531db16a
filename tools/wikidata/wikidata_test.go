package wikidata

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// features is the expected file of the made-up answers, by hand. Film 7 has five categories, among
// them the earlier of two years, a genre that was reached twice, a person with two roles and a role
// with two persons. Film 8 has nothing, film 9 no IMDb id, and film 10 a person without a name or
// role.
const features = `item_id,category,value,weight
7,extended_genre,"comedy, dark (Q1)",1
7,extended_genre,fiction (Q2),2
7,genre,"comedy, dark (Q1)",1
7,person,A. Nobody (Q3),2
7,person,B. Nobody (Q4),1
7,role,cast member,2
7,role,director,1
7,year,1999,1
10,person,Q5,1
10,year,2010,1
`

// run runs the program, and returns what it prints to stderr.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip(err)
	}
	log, err := exec.Command("python3", append([]string{"wikidata.py"}, args...)...).CombinedOutput()
	return string(log), err
}

func TestFeatures(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.csv")
	args := []string{"--links", "testdata/links.csv", "--out", out, "testdata/answer.csv", "testdata/answer.json"}
	log, err := run(t, args...)
	if err != nil {
		t.Fatal(err, log)
	}
	got, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != features {
		t.Errorf("got\n%s\nwant\n%s", got, features)
	}
	if want := "10 features of 2 films of 3; 1 answers were about others\n"; log != want {
		t.Errorf("said %q, want %q", log, want)
	}
	if _, err = run(t, args...); err == nil {
		t.Error("a file that was there was written over")
	}
}

// TestQueries: three films in queries of two, all of them named once.
func TestQueries(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "queries")
	if log, err := run(t, "--links", "testdata/links.csv", "--queries", dir, "--films", "2"); err != nil {
		t.Fatal(err, log)
	}
	for file, want := range map[string]string{"0001.rq": `{ "tt0000101" "tt0000102" }`, "0002.rq": `{ "tt10000103" }`} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v; it does not hold %s", file, err, want)
		}
	}
}

func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                                                   "it is empty",
		"imdb,category\ntt1,genre\n":                         "the columns are",
		"imdb,category,value\nnm1,genre,x\n":                 `answer 1: the IMDb id "nm1" is no number`,
		"imdb,category,value\ntt1,genre,\n":                  "neither may be empty",
		"imdb,category,value\ntt1,genre\n":                   "more or fewer fields",
		"imdb,category,value\ntt1,year,soon\n":               `"soon" is no year or date`,
		"imdb,category,value\ntt1,role,director\n":           "roles are counted by persons",
		`{"head": {"vars": ["x"]}, "results": {}}`:           "the columns are",
		`{"head": {"vars": ["x"]}, "results": {}`:            "Expecting",
		"imdb,category,value\ntt1,genre,\"not ended\ntt1,x,": "unexpected end of data",
	} {
		file := filepath.Join(t.TempDir(), "answer")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		log, err := run(t, "--links", "testdata/links.csv", "--out", file+".csv", file)
		if err == nil || !strings.Contains(log, want) || strings.Contains(log, "Traceback") {
			t.Errorf("%q: %v, %s, want %s", text, err, log, want)
		}
	}
}
