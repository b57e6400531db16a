package files

import (
	"archive/tar"
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
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
	magic, err := io.ReadAll(io.LimitReader(f, 4))
	return string(magic) == "PK\x03\x04" || string(magic) == "PK\x05\x06", err
}

// openZip opens an archive; the source of another file is nil. The ratings may stand in any one folder of it.
func openZip(ctx context.Context, name string, o Options) (*Source, error) {
	if zipped, err := isZip(name); err != nil || !zipped {
		return nil, err
	}
	r, err := zip.OpenReader(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; it begins like a zip archive, but cannot be read as one", name, err)
	}
	dirs, folders, err := zipFolders(name, r.File)
	s := &Source{}
	if err == nil {
		s, err = find(ctx, name, dirs, folders, o)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	s.Name, s.Archive, s.Close = BaseName(name), name, r.Close
	return s, nil
}

// zipFolders returns the folders of an archive, in the order of their first files.
func zipFolders(archive string, entries []*zip.File) (dirs []string, folders map[string]Folder, err error) {
	folders = make(map[string]Folder)
	var files []string
	for _, entry := range entries {
		name := strings.ReplaceAll(entry.Name, `\`, "/") // as some packers on Windows write
		// Nothing is written, so a name that points outside does no harm; it belongs to no folder here.
		if strings.HasSuffix(name, "/") || !filepath.IsLocal(name) || isHidden(name) {
			continue
		}
		name = path.Clean(name)
		dir := path.Dir(name)
		if folders[dir] == nil {
			folders[dir] = zipFolder{archive: archive, dir: dir, files: make(map[string]*zip.File)}
			dirs = append(dirs, dir)
		}
		if folders[dir].Has(path.Base(name)) {
			return nil, nil, fmt.Errorf("%s: holds %s twice; pack it anew", archive, name)
		}
		folders[dir].(zipFolder).files[path.Base(name)] = entry
		files = append(files, name)
	}
	if err = foreignZip(files); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", archive, err)
	}
	return dirs, folders, nil
}

// foreignZip returns an error for files of other programs that are zip archives within, by the names of their members.
func foreignZip(files []string) error {
	has := func(name string) bool { return slices.Contains(files, name) }
	numpy := func(name string) bool { return path.Ext(name) == ".npy" && path.Base(name) == name }
	switch {
	case has("xl/workbook.xml"), has("xl/workbook.bin"):
		return errors.New("it is an Excel workbook, which is not read; save it as CSV")
	case has("mimetype") && has("content.xml"):
		return errors.New("it is an OpenDocument file, which is not read; save it as CSV")
	case len(files) > 0 && !slices.ContainsFunc(files, func(name string) bool { return !numpy(name) }):
		return errors.New("it is an archive of NumPy, which is not read; write its arrays as columns of a CSV file: numpy.savetxt")
	}
	return nil
}

func (z zipFolder) Path(name string) string { return filepath.Join(z.archive, z.dir, name) }

func (z zipFolder) Has(name string) bool { return z.files[name] != nil }

func (z zipFolder) names() []string { return slices.Sorted(maps.Keys(z.files)) }

// Open refuses a file that declares too large a size. A file larger than declared ends with
// zip.ErrFormat, a file with another checksum with zip.ErrChecksum.
func (z zipFolder) Open(name string) (io.ReadCloser, int64, error) {
	f := z.files[name]
	if f == nil {
		return nil, 0, fmt.Errorf("%s: %w", z.Path(name), fs.ErrNotExist)
	}
	if f.Flags&1 != 0 {
		return nil, 0, fmt.Errorf("%s: is encrypted; unpack it and name its folder", z.Path(name))
	}
	size, packed := f.UncompressedSize64, f.CompressedSize64
	if size > maxUnpacked || size/maxRatio > packed {
		return nil, 0, fmt.Errorf("%s: unpacks from %d bytes to %d, more than %d or %d times; if it is to be trusted, unpack it and name its folder",
			z.Path(name), packed, size, int64(maxUnpacked), maxRatio)
	}
	r, err := f.Open()
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", z.Path(name), err)
	}
	return r, int64(size), nil
}

// openTar puts the member with the ratings in place of a tar archive. It takes the named member, or the first with a usual name. An archive
// is read once, from its beginning.
func (in *Input) openTar(ctx context.Context, o Options) (string, error) {
	r := tar.NewReader(in.ReadCloser)
	var names []string
	for {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", fmt.Errorf("it begins like a tar archive, but cannot be read: %w", err)
		}
		if h.Typeflag != tar.TypeReg || isHidden(h.Name) {
			continue
		}
		names = append(names, h.Name)
		base := path.Base(h.Name)
		if o.Member == "" && isRatingsFile(base) || o.Member != "" && (base == o.Member || path.Clean(h.Name) == path.Clean(o.Member)) {
			in.Path = path.Join(in.Path, h.Name)
			in.filter(r)
			return h.Name, nil
		}
	}
	if o.Member != "" {
		return "", fmt.Errorf("--member: the archive has no member %s; it has %s", o.Member, strings.Join(Some(names), ", "))
	}
	return "", fmt.Errorf("%w: the archive has none of %s; say which of its files has the ratings, as --member NAME: %s",
		dataset.ErrNoRatings, strings.Join(ratingsFiles, ", "), strings.Join(Some(names), ", "))
}

// mostNamed limits the names of files in a message.
const mostNamed = 20

// Some are the first of the names, as many as a message has.
func Some(names []string) []string {
	if len(names) > mostNamed {
		return append(slices.Clone(names[:mostNamed]), fmt.Sprintf("and %d more", len(names)-mostNamed))
	}
	return names
}

// isRatingsFile reports whether a file is called like a file of ratings, in upper or lower case, packed or not.
func isRatingsFile(name string) bool {
	return slices.ContainsFunc(ratingsFiles, func(known string) bool { return strings.EqualFold(known, UnpackedName(name)) })
}

// isHidden reports whether a file of an archive or folder belongs to the system that packed it.
func isHidden(name string) bool {
	base := path.Base(name)
	return strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || strings.HasPrefix(name, "__MACOSX/") || strings.Contains(name, "/__MACOSX/")
}
