package published

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fedsim/fedsim/internal/atomicfile"
)

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
	b, err := os.ReadFile(c.receipt(p))
	if err != nil {
		return Receipt{}, err
	}
	var r Receipt
	if err = json.Unmarshal(b, &r); err != nil {
		return Receipt{}, fmt.Errorf("%s: %w; run: fedsim data get %s", c.receipt(p), err, p.Name)
	}
	return r, nil
}

// Keep moves a downloaded file to its place in the cache, with its receipt. The
// receipt comes first and the move is a rename: an archive in the cache is whole and
// has a receipt.
func (c Cache) Keep(p Set, file string, r Receipt) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err = atomicfile.Write(c.receipt(p), append(b, '\n'), 0o644); err != nil {
		return err
	}
	return atomicfile.Rename(file, c.Archive(p))
}

// Check compares the archive of a set with all digests known for it, from [Set] and from its receipt.
// Without a known digest there are no checks.
func (c Cache) Check(ctx context.Context, p Set) (FileDigest, []Check, error) {
	got, err := DigestFile(ctx, c.Archive(p))
	if err != nil {
		return got, nil, err
	}
	checks, err := c.Compare(p, got)
	return got, checks, err
}

func (c Cache) Compare(p Set, got FileDigest) ([]Check, error) {
	checks := CompareDigests(p, got)
	r, err := c.Receipt(p)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return checks, nil
	case err != nil:
		return nil, err
	}
	return append(checks, Compare("sha-256", got.SHA256, r.SHA256, "recorded when it was downloaded")), nil
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
