package main

import (
	"bytes"
	"crypto/md5" //nolint:gosec // dpkg wants these digests, which find damage and no attack
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/blakesmith/ar"
)

// control is the description of the Debian package.
const control = `Package: fedsim
Version: %s
Architecture: %s
Maintainer: The fedsim authors <fedsim@users.noreply.github.com>
Installed-Size: %d
Section: science
Priority: optional
Homepage: https://github.com/fedsim/fedsim
Description: private recommenders in a federation
 fedsim simulates a federation that trains private recommenders, with exact
 noise under dropouts, secure sums and accounting. fednode runs the parties
 of such a federation on separate machines.
`

// packages makes a Debian package for each platform with Linux.
func (r *release) packages() error {
	for _, p := range r.platforms {
		if p.os != "linux" {
			continue
		}
		files, err := r.installed(p)
		if err != nil {
			return err
		}
		version := strings.Replace(r.number(), "-", "~", 1) // 0.1.0~dev comes before 0.1.0
		b, err := r.debian(files, version, p.arch)          // Debian's names of amd64 and arm64 are Go's
		if err != nil {
			return err
		}
		if err = r.write(fmt.Sprintf("fedsim_%s_%s.deb", version, p.arch), b); err != nil {
			return err
		}
	}
	return nil
}

// installed returns the files of a package, by the paths that they get.
func (r *release) installed(p platform) ([]entry, error) {
	var list []entry
	for _, name := range names {
		from, _ := r.command(p, name)
		b, err := os.ReadFile(from)
		if err != nil {
			return nil, err
		}
		list = append(list, entry{"usr/bin/" + name, 0o755, b})
	}
	for _, page := range r.pages {
		e, err := placed(page)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	units, failed := filepath.Glob(filepath.Join(r.root, "deploy", "systemd", "*.service"))
	if failed != nil {
		return nil, failed
	}
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		if err != nil {
			return nil, err
		}
		text = bytes.ReplaceAll(text, []byte("/usr/local/bin/"), []byte("/usr/bin/"))
		list = append(list, entry{"usr/lib/systemd/system/" + filepath.Base(unit), 0o644, text})
	}
	for _, page := range []struct{ from, to string }{{"LICENSE", "copyright"}, {"README.md", "README.md"}} {
		text, err := os.ReadFile(filepath.Join(r.root, page.from))
		if err != nil {
			return nil, err
		}
		list = append(list, entry{"usr/share/doc/fedsim/" + page.to, 0o644, text})
	}
	changes, err := os.ReadFile(filepath.Join(r.root, "CHANGELOG.md"))
	if err != nil {
		return nil, err
	}
	changes, err = gzipped(changes)
	return append(list, entry{"usr/share/doc/fedsim/changelog.gz", 0o644, changes}), err
}

// placed returns a manual page or a completion where Debian looks for it.
func placed(page entry) (entry, error) {
	name := path.Base(page.name)
	switch {
	case strings.HasSuffix(name, ".1"):
		b, err := gzipped(page.data)
		return entry{"usr/share/man/man1/" + name + ".gz", page.mode, b}, err
	case strings.HasSuffix(name, ".bash"):
		return entry{"usr/share/bash-completion/completions/" + strings.TrimSuffix(name, ".bash"), page.mode, page.data}, nil
	case strings.HasSuffix(name, ".fish"):
		return entry{"usr/share/fish/vendor_completions.d/" + name, page.mode, page.data}, nil
	default:
		return entry{"usr/share/zsh/vendor-completions/" + name, page.mode, page.data}, nil
	}
}

// debian packs files as deb(5) says, to the same bytes in any order of the files.
func (r *release) debian(files []entry, version, arch string) ([]byte, error) {
	var sums strings.Builder
	size := 0
	for _, e := range sorted(files) {
		fmt.Fprintf(&sums, "%x  %s\n", md5.Sum(e.data), e.name) //nolint:gosec // as above
		size += (len(e.data) + 1023) / 1024
	}
	data, err := targz(files, "./", r.time)
	if err != nil {
		return nil, err
	}
	about, err := targz([]entry{
		{"control", 0o644, fmt.Appendf(nil, control, version, arch, size)},
		{"md5sums", 0o644, []byte(sums.String())},
	}, "./", r.time)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := ar.NewWriter(&out)
	if err = w.WriteGlobalHeader(); err != nil {
		return nil, err
	}
	for _, e := range []entry{{"debian-binary", 0o100644, []byte("2.0\n")}, {"control.tar.gz", 0o100644, about}, {"data.tar.gz", 0o100644, data}} {
		if err = w.WriteHeader(&ar.Header{Name: e.name, ModTime: r.time, Mode: int64(e.mode), Size: int64(len(e.data))}); err != nil {
			return nil, err
		}
		if _, err = w.Write(e.data); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}
