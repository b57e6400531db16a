// Package published knows the data sets that others publish: their counts, addresses and digests ([Lookup]), and the folder that holds
// downloaded copies ([Cache]). It opens no connection, as package download does, and reads no ratings, as package read does.
package published

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/lists"
)

// Set is a data set that others publish, and what is known about it.
type Set struct {
	Name        string
	Description string
	Terms       string // address of the terms under which it may be used

	// Address is the address of the archive, "" for a set without a known lasting address. MD5 and
	// SHA256 are the hex digests of that archive; both are "" when it is renewed from time to time.
	Address, MD5, SHA256 string

	// Counts of the set, as its publisher states them or as they have been counted. For a set that is
	// renewed, counts are of one edition. Items counts the catalogue, or the rated items if there is
	// none.
	Users, Items, RatedItems, Ratings int

	Min, Max float64 // rating range in stars
}

// Renewed reports whether the publisher replaces the archive from time to time, so
// that no digest of it can be known in advance.
func (p Set) Renewed() bool { return p.Address != "" && p.MD5 == "" }

//go:embed sets.json
var stated []byte

// sets returns the sets of sets.json. GroupLens publishes the MD5 digests beside the archives. The counts come from the README files
// (Harper, Konstan 2015; Brozovsky, Petricek 2007), except the counts of rated movies, which others have counted.
var sets = sync.OnceValue(func() (list []Set) {
	if err := json.Unmarshal(stated, &list); err != nil {
		panic(err) // the file is a part of the program
	}
	return list
})

// Sets returns the published sets that are known, smallest MovieLens first.
func Sets() []Set { return slices.Clone(sets()) }

// Lookup returns the published set of a name.
func Lookup(name string) (Set, bool) {
	i := slices.IndexFunc(sets(), func(p Set) bool { return p.Name == name })
	if i < 0 {
		return Set{}, false
	}
	return sets()[i], true
}

func Names() []string {
	return lists.Map(sets(), func(p Set) string { return p.Name })
}

// ErrNotDownloaded is wrapped by the error of a published set that is not in the
// cache; the error says how to get it.
var ErrNotDownloaded = errors.New("not downloaded")

// Cache is the folder that holds the archives of published sets, and beside each
// the [Receipt] of its download.
type Cache string

// UserCache is the folder of the present user: fedsim/data in [os.UserCacheDir].
func UserCache() (Cache, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no folder for downloaded data: %w", err)
	}
	return Cache(filepath.Join(dir, "fedsim", "data")), nil
}

// Archive returns the path of a set's archive, which need not be there.
func (c Cache) Archive(p Set) string { return filepath.Join(string(c), p.Name+".zip") }

// Has reports whether the archive of a set is there.
func (c Cache) Has(p Set) bool {
	info, err := os.Stat(c.Archive(p))
	return err == nil && info.Mode().IsRegular()
}

// FileDigest identifies the content of a file.
type FileDigest struct {
	Size   int64  `json:"size"` // bytes
	MD5    string `json:"md5"`  // hex, likewise the other
	SHA256 string `json:"sha256"`
}

// DigestFile reads a file and returns its size and digests. When ctx ends, it
// returns its error.
func DigestFile(ctx context.Context, file string) (FileDigest, error) {
	f, err := os.Open(file)
	if err != nil {
		return FileDigest{}, err
	}
	defer f.Close() //nolint:errcheck // read-only: nothing can be lost
	weak, strong := md5.New(), sha256.New()
	to := io.MultiWriter(weak, strong)
	var size, n int64
	for err == nil {
		n, err = io.CopyN(to, f, 1<<20)
		size += n
		if err == nil {
			err = ctx.Err()
		}
	}
	if !errors.Is(err, io.EOF) {
		return FileDigest{}, fmt.Errorf("%s: %w", file, err)
	}
	return FileDigest{Size: size, MD5: hex.EncodeToString(weak.Sum(nil)), SHA256: hex.EncodeToString(strong.Sum(nil))}, nil
}

// Receipt records a download and the digest that it was checked against.
type Receipt struct {
	Address string `json:"address"`
	FileDigest
	Checked string `json:"checked"` // against which digest
}

func (c Cache) receipt(p Set) string { return c.Archive(p) + ".json" }

// Receipt returns the receipt of a set. The error of a missing receipt wraps [fs.ErrNotExist].
func (c Cache) Receipt(p Set) (Receipt, error) {
	var r Receipt
	err := atomicfile.ReadJSON(c.receipt(p), &r)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w; run: fedsim data get %s", err, p.Name)
	}
	return r, err
}

// Keep moves a downloaded file to its place in the cache, with its receipt. The
// receipt comes first and the move is a rename: an archive in the cache is whole and
// has a receipt.
func (c Cache) Keep(p Set, file string, r Receipt) error {
	if err := atomicfile.WriteJSON(c.receipt(p), r); err != nil {
		return err
	}
	return atomicfile.Rename(file, c.Archive(p))
}

// Check compares an archive with all digests known for a set: the built-in ones, and for the archive in the cache the digest in its
// receipt. Without a known digest there are no checks.
func (c Cache) Check(ctx context.Context, p Set, archive string) (FileDigest, []Check, error) {
	got, err := DigestFile(ctx, archive)
	if err != nil {
		return got, nil, err
	}
	var checks []Check
	if p.MD5 != "" {
		checks = []Check{
			Compare("md5", got.MD5, p.MD5, "built in, published by GroupLens"),
			Compare("sha-256", got.SHA256, p.SHA256, "built in"),
		}
	}
	if p.Name == "" || archive != c.Archive(p) {
		return got, checks, nil
	}
	r, err := c.Receipt(p)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return got, checks, nil
	case err != nil:
		return got, nil, err
	}
	return got, append(checks, Compare("sha-256", got.SHA256, r.SHA256, "recorded when it was downloaded")), nil
}

// Cached returns the path of the archive of a set in the given cache, or the user's.
func (p Set) Cached(c Cache) (string, error) {
	if c == "" {
		var err error
		if c, err = UserCache(); err != nil {
			return "", err
		}
	}
	archive := c.Archive(p)
	_, err := os.Stat(archive)
	switch {
	case errors.Is(err, fs.ErrNotExist) && p.Address == "":
		return "", fmt.Errorf("data %q: %w: fedsim knows no address of it that will last; look for it at %s, and give its folder or zip archive instead of its name",
			p.Name, ErrNotDownloaded, p.Terms)
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("data %q: %w: there is no %s; run: fedsim data get %s", p.Name, ErrNotDownloaded, archive, p.Name)
	}
	return archive, err
}

// Check is one comparison of a set with its published data.
type Check struct {
	What    string `json:"what"`    // "sha-256", "ratings"
	Got     string `json:"got"`     // what was found
	Want    string `json:"want"`    // what it should be, "" when nothing is known to compare it with
	Against string `json:"against"` // where that is known from, or why it is not
	OK      bool   `json:"ok"`
}

func Compare(what, got, want, against string) Check {
	return Check{What: what, Got: got, Want: want, Against: against, OK: got == want}
}
