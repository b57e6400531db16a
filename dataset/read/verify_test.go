package read

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/dataset/published"
)

// TestPublished: entries are complete and cannot be mistaken for one another.
func TestPublished(t *testing.T) {
	seen := make(map[string]bool)
	for _, p := range published.Sets() {
		if got, ok := published.Lookup(p.Name); !ok || got != p {
			t.Errorf("Lookup(%q) is %+v, %v", p.Name, got, ok)
		}
		if p.Description == "" || p.Terms == "" || !(p.Min < p.Max) || p.RatedItems > p.Items || p.Ratings < p.Users || p.Ratings > p.Users*p.Items {
			t.Errorf("impossible entry %+v", p)
		}
		if p.Address != "" && filepath.Base(p.Address) != p.Name+".zip" {
			t.Errorf("%s is at %s", p.Name, p.Address)
		}
		hex := regexp.MustCompile(`^[0-9a-f]*$`)
		if pinned := p.MD5 != ""; pinned != (p.SHA256 != "") || pinned && (len(p.MD5) != 32 || len(p.SHA256) != 64) || !hex.MatchString(p.MD5+p.SHA256) {
			t.Errorf("%s has the digests %q and %q", p.Name, p.MD5, p.SHA256)
		}
		for _, key := range []string{p.Name, p.MD5, p.SHA256} {
			if key != "" && seen[key] {
				t.Errorf("%s appears twice", key)
			}
			seen[key] = true
		}
	}
	if _, ok := published.Lookup("ml-2m"); ok {
		t.Error("ml-2m is no published set")
	}
}

// TestPublishedAgainstHistograms: the histogram and mean of MovieLens 1M and 10M that
// the synthetic shapes were fitted to add up to the counts published here.
func TestPublishedAgainstHistograms(t *testing.T) {
	for name, histogram := range map[string][]int{
		"ml-1m":  {56_174, 107_557, 261_197, 348_971, 226_310},
		"ml-10m": {94_988, 384_180, 118_278, 790_306, 370_178, 2_356_676, 879_764, 2_875_850, 585_022, 1_544_812},
	} {
		p, _ := published.Lookup(name)
		sum := 0
		for _, n := range histogram {
			sum += n
		}
		if sum != p.Ratings {
			t.Errorf("%s: histogram of %d ratings, published are %d", name, sum, p.Ratings)
		}
	}
}

func TestDigestFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x")
	text := []byte(strings.Repeat("abc", 1<<19)) // more than is read at once
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := published.DigestFile(context.Background(), file)
	weak, strong := md5.Sum(text), sha256.Sum256(text)
	want := published.FileDigest{Size: int64(len(text)), MD5: hex.EncodeToString(weak[:]), SHA256: hex.EncodeToString(strong[:])}
	if err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err = published.DigestFile(ctx, file); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want context.Canceled", err)
	}
	if _, err = published.DigestFile(context.Background(), file+"y"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error is %v, want fs.ErrNotExist", err)
	}
}

// TestOpenCached: a name stands for the archive in the cache, unless a path of that name exists.
func TestOpenCached(t *testing.T) {
	cache := published.Cache(t.TempDir())
	o := Options{Cache: cache}
	_, err := Open(context.Background(), "ml-1m", o)
	want := fmt.Sprintf(`data "ml-1m": not downloaded: there is no %s; run: fedsim data get ml-1m`, filepath.Join(string(cache), "ml-1m.zip"))
	if !errors.Is(err, published.ErrNotDownloaded) || err.Error() != want {
		t.Errorf("\n got %v\nwant %s", err, want)
	}
	want = `data "libimseti": not downloaded: fedsim knows no address of it that will last; look for it at http://www.occamslab.com/petricek/data/, and give its folder or zip archive instead of its name`
	if _, err = Open(context.Background(), "libimseti", o); !errors.Is(err, published.ErrNotDownloaded) || err.Error() != want {
		t.Errorf("\n got %v\nwant %s", err, want)
	}
	p, _ := published.Lookup("ml-1m")
	if cache.Has(p) {
		t.Error("an empty cache has ml-1m")
	}
	archive := zipped(t, "x.zip", map[string]string{"ml-1m": "testdata/good/ml-1m"})
	if err = cache.Keep(p, archive, published.Receipt{Address: "a", Checked: "b"}); err != nil {
		t.Fatal(err)
	}
	if got := open(t, "ml-1m", o); !cache.Has(p) || got.Name != "ml-1m" || got.Len() != 3 || got.Min != 1 {
		t.Errorf("%s with %d ratings from %v, want ml-1m with 3 from 1", got.Name, got.Len(), got.Min)
	}
	t.Chdir("testdata/good")
	if got := open(t, "ml-10m", o); got.Name != "ml-10m" || got.Len() != 3 {
		t.Errorf("%s with %d ratings, want the folder ml-10m with 3", got.Name, got.Len())
	}
}

// TestUserCache: it is where the system keeps caches.
func TestUserCache(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", home)
	t.Setenv("HOME", home)
	c, err := published.UserCache()
	if err != nil || !strings.HasPrefix(string(c), home) || !strings.HasSuffix(string(c), filepath.Join("fedsim", "data")) {
		t.Errorf("got %s, %v, want a folder fedsim/data in %s", c, err, home)
	}
}

// checkNames returns what was checked, with a "!" where it does not hold and a "?"
// where there is nothing to hold it against.
func checkNames(v Verification) []string {
	var names []string
	for _, c := range v.Checks {
		switch {
		case !c.OK:
			names = append(names, "!"+c.What)
		case c.Want == "":
			names = append(names, "?"+c.What)
		default:
			names = append(names, c.What)
		}
	}
	return names
}

// TestVerify keeps a tiny archive under published names: what is compared, and what
// does not hold, follows from the promises of Verify.
func TestVerify(t *testing.T) {
	cache := published.Cache(t.TempDir())
	tiny := func(name string) string { return zipped(t, name, map[string]string{"ml": "testdata/good/movielens"}) }
	keep := func(name string, r published.Receipt) {
		t.Helper()
		p, _ := published.Lookup(name)
		if err := cache.Keep(p, tiny("x.zip"), r); err != nil {
			t.Fatal(err)
		}
	}
	digest, err := published.DigestFile(context.Background(), tiny("x.zip"))
	if err != nil {
		t.Fatal(err)
	}
	keep("ml-1m", published.Receipt{FileDigest: digest})
	keep("ml-10m", published.Receipt{FileDigest: published.FileDigest{SHA256: "other"}})
	keep("ml-latest-small", published.Receipt{FileDigest: digest})
	countsFail := []string{"!ratings", "!users", "!items", "!rated items"}
	for _, c := range []struct {
		spec, set string
		want      []string
		err       string
	}{
		// Not the archive of ml-1m, and not read further; but the archive that was downloaded.
		{"ml-1m", "ml-1m", []string{"!md5", "!sha-256", "sha-256"}, "is not the published set ml-1m: md5 is "},
		{"ml-10m", "ml-10m", []string{"!md5", "!sha-256", "!sha-256"}, "; sha-256 is " + digest.SHA256 + ", want other"},
		// Its digest was recorded, so this is an edition whose counts are not known.
		{"ml-latest-small", "ml-latest-small", []string{"sha-256", "?ratings", "?users", "?items", "?rated items"}, ""},
		// A copy elsewhere: of the name of a set, and of none.
		{tiny("ml-20m.zip"), "ml-20m", []string{"!md5", "!sha-256"}, "is not the published set ml-20m"},
		{tiny("y.zip"), "ml-100k", append([]string{"?sha-256"}, countsFail...), "is not the published set ml-100k: ratings is 4, want 100000; users is 3, want 943"},
		{tiny("ml-latest-small.zip"), "ml-latest-small", append([]string{"?sha-256"}, countsFail...), "want 100836"},
		{"testdata/good/movielens", "ml-100k", countsFail, "testdata/good/movielens/ratings.csv: is not"},
		{"testdata/good/ml-10m", "ml-10m", countsFail, "want 10000054"},
	} {
		v, err := Verify(context.Background(), c.spec, Options{Cache: cache})
		if err != nil {
			t.Errorf("%s: %v", c.spec, err)
		}
		if v.Set != c.set || !slices.Equal(checkNames(v), c.want) {
			t.Errorf("%s: compared with %q: %q, want %q: %q", c.spec, v.Set, checkNames(v), c.set, c.want)
		}
		switch err = v.Err(); {
		case c.err == "" && err != nil:
			t.Errorf("%s: %v", c.spec, err)
		case c.err != "" && (!errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s:\n got %v\nwant ... %s ...", c.spec, err, c.err)
		}
	}
}

// TestVerifyErrors: what cannot be read is an error, with the checks made before.
func TestVerifyErrors(t *testing.T) {
	bad := zipped(t, "bad.zip", map[string]string{"nan.csv": "testdata/bad/nan.csv"})
	v, err := Verify(context.Background(), bad, Options{})
	if at := new(dataset.FileError); !errors.As(err, &at) || at.Line != 2 || !slices.Equal(checkNames(v), []string{"?sha-256"}) {
		t.Errorf("error %v after %q, want a *FileError on line 2 after the digest", err, checkNames(v))
	}
	if _, err = Verify(context.Background(), "synthetic:small", Options{}); err == nil || !strings.Contains(err.Error(), "is generated and has nothing to verify; want one of ml-100k, ") {
		t.Errorf("error is %v", err)
	}
	if _, err = Verify(context.Background(), "nowhere", Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error is %v, want fs.ErrNotExist", err)
	}
	cache := published.Cache(t.TempDir())
	p, _ := published.Lookup("ml-1m")
	if err = cache.Keep(p, zipped(t, "x.zip", map[string]string{"": "testdata/good/one.csv"}), published.Receipt{}); err != nil {
		t.Fatal(err)
	}
	if err = os.WriteFile(cache.Archive(p)+".json", []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := cache.Archive(p) + ".json" + ": unexpected end of JSON input; run: fedsim data get ml-1m"
	if _, err = Verify(context.Background(), "ml-1m", Options{Cache: cache}); err == nil || err.Error() != want {
		t.Errorf("\n got %v\nwant %s", err, want)
	}
}

// TestVerifyLatestSmall: the real set is the edition whose counts are known.
func TestVerifyLatestSmall(t *testing.T) {
	const dir = "../../shared/data/ml-latest-small"
	if _, err := os.Stat(dir); err != nil {
		t.Skip("MovieLens latest-small is not at hand")
	}
	v, err := Verify(context.Background(), dir, Options{})
	want := []string{"ratings", "users", "items", "rated items"}
	if err != nil || v.Err() != nil || v.Set != "ml-latest-small" || !slices.Equal(checkNames(v), want) {
		t.Errorf("compared with %q: %q, %v, %v, want %q", v.Set, checkNames(v), err, v.Err(), want)
	}
}

// TestMostLike: a set with the counts of a published set is most like that set, whatever its name. A
// copy that lacks a few ratings is most like its original.
func TestMostLike(t *testing.T) {
	for _, p := range published.Sets() {
		i := dataset.Info{Ratings: p.Ratings, Users: p.Users, Items: p.Items, RatedItems: p.RatedItems}
		if got := mostLike(i); got != p {
			t.Errorf("the counts of %s are most like %s", p.Name, got.Name)
		}
		i.Ratings = int(math.Round(0.9999 * float64(p.Ratings)))
		if got := mostLike(i); got != p {
			t.Errorf("the counts of %s with a few ratings less are most like %s", p.Name, got.Name)
		}
		if diff := cmp.Diff([]bool{false, true, true, true}, okOf(countChecks(p, i, false))); diff != "" {
			t.Errorf("%s with a few ratings less (-want +got):\n%s", p.Name, diff)
		}
	}
}

func okOf(checks []published.Check) []bool {
	var ok []bool
	for _, c := range checks {
		ok = append(ok, c.OK)
	}
	return ok
}
