package read

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/dataset"
)

// Bounds of what is read from one file of an archive. MovieLens 25M unpacks to 680
// MB and to a quarter of that packed; what exceeds these was made to exhaust us.
const (
	maxUnpacked = 8 << 30 // bytes
	maxRatio    = 200     // unpacked to packed
)

// zipFolder is a folder of a zip archive. Files are unpacked as they are read,
// never to the disk.
type zipFolder struct {
	archive string
	dir     string // "." for the top
	files   map[string]*zip.File
}

func isZip(name string) (bool, error) {
	f, err := os.Open(name)
	if err != nil {
		return false, err
	}
	defer f.Close() //nolint:errcheck // read-only: nothing can be lost
	var magic [4]byte
	if _, err = io.ReadFull(f, magic[:]); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return false, nil
	}
	return bytes.Equal(magic[:], []byte("PK\x03\x04")) || bytes.Equal(magic[:], []byte("PK\x05\x06")), err
}

// openZip opens an archive; the source of another file is nil. The ratings may stand in any one folder of it.
func openZip(name string) (*source, error) {
	if zipped, err := isZip(name); err != nil || !zipped {
		return nil, err
	}
	r, err := zip.OpenReader(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; it begins like a zip archive, but cannot be read as one", name, err)
	}
	folder, file, err := findInZip(name, r.File)
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return &source{folder: folder, name: baseName(name), file: file, archive: name, close: r.Close}, nil
}

// findInZip returns the folder of an archive that holds ratings, and their file.
func findInZip(archive string, entries []*zip.File) (zipFolder, string, error) {
	folders := make(map[string]zipFolder)
	var dirs, files []string
	for _, entry := range entries {
		name := strings.ReplaceAll(entry.Name, `\`, "/") // as some packers on Windows write
		// Nothing is written, so a name that points outside does no harm; it belongs to no folder here.
		if strings.HasSuffix(name, "/") || !filepath.IsLocal(name) || strings.HasPrefix(name, "__MACOSX/") {
			continue
		}
		name = path.Clean(name)
		dir := path.Dir(name)
		if _, known := folders[dir]; !known {
			folders[dir] = zipFolder{archive: archive, dir: dir, files: make(map[string]*zip.File)}
			dirs = append(dirs, dir)
		}
		if _, twice := folders[dir].files[path.Base(name)]; twice {
			return zipFolder{}, "", fmt.Errorf("%s: holds %s twice; pack it anew", archive, name)
		}
		folders[dir].files[path.Base(name)] = entry
		files = append(files, name)
	}
	if len(files) == 1 { // a single packed file may have any name
		return folders[dirs[0]], path.Base(files[0]), nil
	}
	var with []string
	for _, dir := range dirs {
		if slices.ContainsFunc(ratingsFiles, folders[dir].has) {
			with = append(with, dir)
		}
	}
	switch len(with) {
	case 0:
		return zipFolder{}, "", fmt.Errorf("%s: %w: looked in all its folders for %s", archive, dataset.ErrNoRatings, strings.Join(ratingsFiles, ", "))
	case 1:
		found := folders[with[0]]
		file, err := findRatings(path.Join(archive, with[0]), found.has)
		return found, file, err
	default:
		return zipFolder{}, "", fmt.Errorf("%s: has ratings in its folders %s; unpack it and name one of them", archive, strings.Join(with, " and "))
	}
}

func (z zipFolder) path(name string) string { return filepath.Join(z.archive, z.dir, name) }

func (z zipFolder) has(name string) bool { return z.files[name] != nil }

// open refuses what declares to be too large. What is larger than it declares ends
// with zip.ErrFormat, what has another checksum with zip.ErrChecksum.
func (z zipFolder) open(name string) (io.ReadCloser, int64, error) {
	f := z.files[name]
	if f == nil {
		return nil, 0, fmt.Errorf("%s: %w", z.path(name), fs.ErrNotExist)
	}
	if f.Flags&1 != 0 {
		return nil, 0, fmt.Errorf("%s: is encrypted; unpack it and name its folder", z.path(name))
	}
	size, packed := f.UncompressedSize64, f.CompressedSize64
	if size > maxUnpacked || size/maxRatio > packed {
		return nil, 0, fmt.Errorf("%s: unpacks from %d bytes to %d, more than %d or %d times; if it is to be trusted, unpack it and name its folder",
			z.path(name), packed, size, int64(maxUnpacked), maxRatio)
	}
	r, err := f.Open()
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", z.path(name), err)
	}
	return r, int64(size), nil
}
