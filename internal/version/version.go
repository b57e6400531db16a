// Package version says what source a program was built from: the version and the revision, for any
// flags of the build.
package version

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
)

const (
	module  = "github.com/fedsim/fedsim" // of the version; the program may be of another module that imports it
	unknown = "unknown"                  // the revision of a build without information
	short   = 12                         // characters of a commit or a digest in texts for people
)

// release is the version of this source; -dev marks source that is not released yet. A build of a tag
// states the tag instead. Release builds may set it with -ldflags "-X github.com/fedsim/fedsim/internal/version.release=v0.1.0",
// and likewise revision, and modified to "true".
var (
	release  = "v0.1.0-dev"
	revision string
	modified string
)

// archived is the revision in an archive that git or a forge made; git puts it there (see
// .gitattributes). Elsewhere it stays as it is.
const archived = "$Format:%H$"

// Info says what a program was built from.
type Info struct {
	Version  string // the tag of a tagged build, else release
	Revision string // of git, in full, or a tag; Unknown if nothing tells it
	Modified bool   // the tree had changes besides
	Binary   string // digest of the program's file, which identifies a build of unknown or modified source
}

// Get says what this program was built from.
var Get = sync.OnceValue(func() Info {
	info := Info{Version: release}
	build, _ := debug.ReadBuildInfo()
	switch {
	case revision != "":
		info.Revision, info.Modified = revision, modified == "true"
	case info.Stamped(build):
	case !strings.Contains(archived, "$"):
		info.Revision = archived
	default:
		info.Revision = unknown
	}
	if info.Modified || info.Revision == unknown {
		info.Binary = Executable()
	}
	return info
})

// Program names the source of this program in full. Programs of one name compute the same bits.
func Program() string { return Get().Version + " " + Get().Source() }

// Executable is the digest of this program's file; "" if it cannot be read.
var Executable = sync.OnceValue(func() string {
	path, _ := os.Executable()
	digest, _ := Digest(path)
	return digest
})

// State sets the revision of a program that its own tests start many times. Without it each start reads the
// whole file of the program for the digest. State comes before the first call of [Get].
func State(of string) { revision = of }

// pseudo is the end of a version that the go command made of a revision.
var pseudo = regexp.MustCompile(`[-.]\d{14}-([0-9a-f]{12})(\+.*)?$`)

// Stamped takes what the go command wrote down: of version control where it built this module
// in a checkout, else the module's version.
func (i *Info) Stamped(build *debug.BuildInfo) bool {
	if build == nil {
		return false
	}
	if build.Main.Path != module { // a program of another module, with another revision
		at := slices.IndexFunc(build.Deps, func(d *debug.Module) bool { return d.Path == module && d.Replace == nil })
		return at >= 0 && i.versioned(build.Deps[at].Version)
	}
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			i.Revision = s.Value
		case "vcs.modified":
			i.Modified = s.Value == "true"
		}
	}
	if i.Revision == "" {
		return i.versioned(build.Main.Version)
	}
	i.tagged(build.Main.Version)
	return true
}

// versioned takes the revision that a module's version names, as itself or in its end.
func (i *Info) versioned(version string) bool {
	version, dirt, _ := strings.Cut(version, "+")
	if version == "" || version == "(devel)" {
		return false
	}
	i.Revision, i.Modified = version, dirt == "dirty"
	if found := pseudo.FindStringSubmatch(version); found != nil {
		i.Revision = found[1]
	}
	i.tagged(version)
	return true
}

// tagged takes the version from the tag that was built, unless the release was set by a flag of the build.
func (i *Info) tagged(version string) {
	version, _, _ = strings.Cut(version, "+")
	if strings.HasSuffix(i.Version, "-dev") && strings.HasPrefix(version, "v") && !pseudo.MatchString(version) {
		i.Version = version
	}
}

// Digest returns the SHA-256 of a file, in hex; "" with an error.
func Digest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // it was only read
	h := sha256.New()
	if _, err = io.Copy(h, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}

// commit matches git's full name of a commit.
var commit = regexp.MustCompile(`^[0-9a-f]{40,64}$`)

// Source is the revision, followed by whether it was modified, and by the digest of the program
// where the revision does not identify it: "unknown, binary 1a2b...".
func (i Info) Source() string {
	text := i.Revision
	if i.Modified {
		text += ", modified"
	}
	if i.Binary != "" {
		text += ", binary " + i.Binary
	}
	return text
}

// String returns a text like "v0.1.0-dev (revision 1a2b3c4d5e6f, modified)".
func (i Info) String() string {
	if commit.MatchString(i.Revision) {
		i.Revision = i.Revision[:short]
	}
	i.Binary = i.Binary[:min(short, len(i.Binary))]
	return i.Version + " (revision " + i.Source() + ")"
}
