package files

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/dataset"
)

func isTar(head []byte) bool {
	const at = 257
	return len(head) >= at+5 && bytes.Equal(head[at:at+5], []byte("ustar"))
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
		if isMember(h.Name, o.Member) {
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

// isMember reports whether a file of an archive is wanted; "" wants a file with a usual name.
func isMember(name, want string) bool {
	if want != "" {
		return path.Clean(name) == path.Clean(want) || path.Base(name) == want
	}
	return isRatingsFile(path.Base(name))
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
