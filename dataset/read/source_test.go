package read

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"context"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/dataset"
)

// entry is a file of a hand-made archive.
type entry struct {
	name, text string
	spoil      func(*zip.FileHeader) // of the true header; nil to leave it true
}

// packEntries writes entries as they are, right or wrong.
func packEntries(tb testing.TB, entries ...entry) string {
	tb.Helper()
	return writeZip(tb, "x.zip", func(w *zip.Writer) error {
		for _, e := range entries {
			var packed bytes.Buffer
			fw, err := flate.NewWriter(&packed, flate.BestCompression)
			if err != nil {
				return err
			}
			_, err = io.WriteString(fw, e.text)
			if err = errors.Join(err, fw.Close()); err != nil {
				return err
			}
			h := &zip.FileHeader{
				Name: e.name, Method: zip.Deflate, CRC32: crc32.ChecksumIEEE([]byte(e.text)),
				CompressedSize64: uint64(packed.Len()), UncompressedSize64: uint64(len(e.text)),
			}
			if e.spoil != nil {
				e.spoil(h)
			}
			to, err := w.CreateRaw(h)
			if err != nil {
				return err
			}
			if strings.HasSuffix(e.name, "/") {
				continue // a folder
			}
			if _, err = to.Write(packed.Bytes()); err != nil {
				return err
			}
		}
		return nil
	})
}

const goodRows = "user,item,rating\na,x,3\nb,y,4\n"

// TestZipHostile: no archive makes Open panic, write, or unpack without bound, and
// every message says what is wrong where.
func TestZipHostile(t *testing.T) {
	size := func(n uint64) func(*zip.FileHeader) {
		return func(h *zip.FileHeader) { h.UncompressedSize64 = n }
	}
	for _, c := range []struct {
		name    string
		entries []entry
		want    string // of the message, ARCHIVE for the archive's path
		is      error
	}{
		{"a bomb that says so", []entry{{"ratings.csv", "user,item,rating\n" + strings.Repeat("a,x,3\n", 1e6), nil}},
			"ARCHIVE/ratings.csv: unpacks from ", nil},
		{"too large by its own word", []entry{{"ratings.csv", goodRows, size(9 << 30)}},
			"to 9663676416, more than 8589934592 or 200 times; if it is to be trusted, unpack it and name its folder", nil},
		{"larger than it says", []entry{{"ratings.csv", goodRows, size(8)}}, "ARCHIVE/ratings.csv: ", zip.ErrFormat},
		{"smaller than it says", []entry{{"ratings.csv", goodRows, size(80)}}, "ARCHIVE/ratings.csv: ", io.ErrUnexpectedEOF},
		{"another checksum", []entry{{"ratings.csv", goodRows, func(h *zip.FileHeader) { h.CRC32++ }}}, "ARCHIVE/ratings.csv: ", zip.ErrChecksum},
		{"another packing", []entry{{"ratings.csv", goodRows, func(h *zip.FileHeader) { h.Method = 99 }}}, "ARCHIVE/ratings.csv: ", zip.ErrAlgorithm},
		{"encrypted", []entry{{"ratings.csv", goodRows, func(h *zip.FileHeader) { h.Flags |= 1 }}}, "ARCHIVE/ratings.csv: is encrypted; unpack it", nil},
		{"a bomb beside it", []entry{{"ratings.csv", "userId,movieId,rating\n1,2,3\n", nil}, {"movies.csv", strings.Repeat("0", 1e6), nil}},
			"ARCHIVE/movies.csv: unpacks from ", nil},
		{"names that point outside", []entry{{"../../ratings.csv", goodRows, nil}, {"/tmp/ratings.csv", goodRows, nil}},
			"ARCHIVE: no ratings: looked in all its folders for ratings.csv, ratings.dat, u.data", dataset.ErrNoRatings},
		{"a folder of that name", []entry{{"ratings.csv/", "", nil}, {"b/", "", nil}}, "ARCHIVE: no ratings: looked in all", dataset.ErrNoRatings},
		{"a name twice", []entry{{"a/ratings.csv", goodRows, nil}, {"a/./ratings.csv", goodRows, nil}}, "ARCHIVE: holds a/ratings.csv twice; pack it anew", nil},
		{"two sets", []entry{{"a/ratings.csv", goodRows, nil}, {"b/ratings.dat", goodRows, nil}},
			"ARCHIVE: has ratings in its folders a and b; unpack it and name one of them", nil},
		{"two files of ratings", []entry{{"a/ratings.csv", goodRows, nil}, {"a/u.data", goodRows, nil}},
			"ARCHIVE/a holds ratings.csv and u.data; name the file itself, or say --member ratings.csv", nil},
		{"two files of other names", []entry{{"mine.csv", goodRows, nil}, {"ours.csv", goodRows, nil}}, "ARCHIVE: no ratings: no file of it has a name such as ratings.csv, and there may be ratings in mine.csv, ours.csv; say in which, as --member mine.csv", dataset.ErrNoRatings},
		{"an Excel workbook", []entry{{"[Content_Types].xml", "<Types/>", nil}, {"xl/workbook.xml", "<workbook/>", nil}, {"xl/worksheets/sheet1.xml", "<worksheet/>", nil}},
			"ARCHIVE: it is an Excel workbook, which is not read; save it as CSV", nil},
		{"an OpenDocument table", []entry{{"mimetype", "application/vnd.oasis.opendocument.spreadsheet", nil}, {"content.xml", "<x/>", nil}, {"META-INF/manifest.xml", "<x/>", nil}},
			"ARCHIVE: it is an OpenDocument file, which is not read; save it as CSV", nil},
		{"arrays of NumPy", []entry{{"user.npy", "\x93NUMPY\x01\x00", nil}, {"rating.npy", "\x93NUMPY\x01\x00", nil}},
			"ARCHIVE: it is an archive of NumPy, which is not read; write its arrays as columns of a CSV file: numpy.savetxt", nil},
		{"nothing", nil, "ARCHIVE: no ratings: looked in all", dataset.ErrNoRatings},
		{"a bad row", []entry{{"a/ratings.csv", goodRows + "c,z\n", nil}, {"a/README", "", nil}},
			"ARCHIVE/a/ratings.csv:4: 2 fields, want 3 as in the header", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := packEntries(t, c.entries...)
			_, err := Open(context.Background(), file, Options{})
			if want := strings.ReplaceAll(c.want, "ARCHIVE", file); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("\n got %v\nwant %s", err, want)
			}
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("error %v does not wrap %v", err, c.is)
			}
			left, err := os.ReadDir(filepath.Dir(file))
			if err != nil || len(left) != 1 {
				t.Errorf("%d files beside the archive, %v, want none", len(left)-1, err)
			}
		})
	}
}

func TestZipGood(t *testing.T) {
	for name, entries := range map[string][]entry{
		"a single file of any name":    {{"my ratings.txt", goodRows, nil}},
		"written on Windows":           {{`top\ratings.csv`, goodRows, nil}, {`top\README.txt`, "", nil}},
		"packed on a Mac":              {{"top/ratings.csv", goodRows, nil}, {"__MACOSX/top/._ratings.csv", "x", nil}, {"__MACOSX/ratings.csv", "x", nil}},
		"with names that lead nowhere": {{"top/ratings.csv", goodRows, nil}, {"../ratings.csv", "x", nil}},
	} {
		if set := open(t, packEntries(t, entries...), Options{}); set.Len() != 2 || set.Users != 2 {
			t.Errorf("%s: %d ratings by %d users, want 2 by 2", name, set.Len(), set.Users)
		}
	}
}

// TestZipBroken: a file that begins like an archive is read as one whatever its name.
func TestZipBroken(t *testing.T) {
	text, err := os.ReadFile(packEntries(t, entry{"ratings.csv", goodRows, nil}))
	if err != nil {
		t.Fatal(err)
	}
	whole, cut := filepath.Join(t.TempDir(), "whole.csv"), filepath.Join(t.TempDir(), "cut.csv")
	if err = errors.Join(os.WriteFile(whole, text, 0o600), os.WriteFile(cut, text[:len(text)/2], 0o600)); err != nil {
		t.Fatal(err)
	}
	if set := open(t, whole, Options{}); set.Len() != 2 {
		t.Errorf("%d ratings, want 2", set.Len())
	}
	want := cut + ": zip: not a valid zip file; it begins like a zip archive, but cannot be read as one"
	if _, err = Open(context.Background(), cut, Options{}); !errors.Is(err, zip.ErrFormat) || err.Error() != want {
		t.Errorf("\n got %v\nwant %s", err, want)
	}
}

// TestOpenFolderOfTwo: a folder that holds several sets is not guessed about, and
// either of them can be named.
func TestOpenFolderOfTwo(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"u.data": "1\t2\t3\t4\n", "ratings.csv": goodRows} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := dir + " holds ratings.csv and u.data; name the file itself, or say --member ratings.csv"
	if _, err := Open(context.Background(), dir, Options{}); err == nil || err.Error() != want {
		t.Errorf("\n got %v\nwant %s", err, want)
	}
	if set := open(t, filepath.Join(dir, "u.data"), Options{}); set.Len() != 1 || set.Max != 5 {
		t.Errorf("u.data has %d ratings up to %v, want 1 up to 5", set.Len(), set.Max)
	}
}

// Files beside the ratings that are not read are named; of a file that was named itself, only lists of items.
func TestUnusedFilesAreNamed(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"ratings.csv", "items.csv", "movies.csv", "tags.csv", "README.txt", ".hidden"} {
		text := "userId,movieId,rating\n1,2,3\n"
		if name != "ratings.csv" {
			text = "movieId,title\n2,Two\n"
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for spec, want := range map[string]string{dir: "README.txt, items.csv, tags.csv", filepath.Join(dir, "ratings.csv"): "items.csv"} {
		set := open(t, spec, Options{})
		at := slices.IndexFunc(set.Findings, func(f dataset.Finding) bool { return f.What == "not used" })
		if at < 0 || set.Findings[at].Found != want {
			t.Errorf("%s: %v, want %s", spec, set.Findings, want)
		}
	}
}
