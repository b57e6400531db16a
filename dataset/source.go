package dataset

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
)

// folder is where the files of a set stand: a folder of the disk or of a zip archive.
type folder interface {
	// open opens a file of the folder and tells its size in bytes, 0 where that is
	// unknown. The error of one that is not there wraps fs.ErrNotExist.
	open(name string) (r io.ReadCloser, size int64, err error)
	has(name string) bool
	path(name string) string // for messages
}

// source is what a spec that is no synthetic set stands for.
type source struct {
	folder
	name    string // of the set
	file    string // of the ratings, in the folder
	archive string // path of the zip archive, "" when there is none
	close   func() error
}

// openSource opens a folder, a zip archive or a single file of ratings.
func openSource(name string, input io.Reader) (*source, error) {
	if name == standardInput {
		if input == nil {
			input = os.Stdin
		}
		return &source{folder: pipe{input}, name: "stdin", file: standardInput, close: func() error { return nil }}, nil
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	s := &source{name: baseName(name), close: func() error { return nil }}
	if info.IsDir() {
		s.folder = diskFolder(name)
		s.file, err = findRatings(name, s.has)
		return s, err
	}
	zipped := false
	if info.Mode().IsRegular() { // a pipe cannot be rewound after a look at its beginning
		zipped, err = isZip(name)
	}
	if err != nil {
		return nil, err
	}
	if zipped {
		return openZip(name)
	}
	dir, file := filepath.Split(name)
	s.folder, s.file = diskFolder(dir), file
	return s, nil
}

// findRatings returns which of the known ratings files a folder has. One that has
// several may hold several sets, and is not guessed about.
func findRatings(folder string, has func(name string) bool) (string, error) {
	files := slices.Clone(ratingsFiles)
	if own := baseName(folder) + ".inter"; !slices.Contains(files, own) { // as RecBole has it
		files = append(files, own)
	}
	found := slices.DeleteFunc(slices.Clone(files), func(name string) bool { return !has(name) })
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", fmt.Errorf("%s: %w: looked in it for %s", folder, ErrNoRatings, strings.Join(files, ", "))
	default:
		return "", fmt.Errorf("%s holds %s; name the file itself", folder, strings.Join(found, " and "))
	}
}

// standardInput is the spec of what is piped in.
const standardInput = "-"

// pipe is what is piped in, with nothing beside it.
type pipe struct{ io.Reader }

func (p pipe) path(string) string { return "standard input" }

func (p pipe) has(string) bool { return false }

func (p pipe) open(string) (io.ReadCloser, int64, error) {
	return io.NopCloser(readerOnly(p)), 0, nil
}

// readerOnly hides that standard input may be a file, which would be read from its start.
type readerOnly struct{ io.Reader }

// diskFolder is a folder of the disk; "" is the present one.
type diskFolder string

func (d diskFolder) path(name string) string { return filepath.Join(string(d), name) }

func (d diskFolder) has(name string) bool {
	info, err := os.Stat(d.path(name))
	return err == nil && !info.IsDir()
}

func (d diskFolder) open(name string) (io.ReadCloser, int64, error) {
	f, err := os.Open(d.path(name))
	if err != nil {
		return nil, 0, err
	}
	var size int64
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		size = info.Size()
	}
	return f, size, nil
}

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

// openZip opens an archive. The ratings may stand in any one folder of it.
func openZip(name string) (*source, error) {
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
		return zipFolder{}, "", fmt.Errorf("%s: %w: looked in all its folders for %s", archive, ErrNoRatings, strings.Join(ratingsFiles, ", "))
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
