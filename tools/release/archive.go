package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"
)

type entry struct {
	name string // with slashes
	mode fs.FileMode
	data []byte
}

// texts holds the files of the checkout that every archive has.
var texts = []string{"LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff"}

// archives makes an archive for each platform, and a list of what is in its commands.
func (r *release) archives() error {
	for _, p := range r.platforms {
		base := fmt.Sprintf("fedsim_%s_%s_%s", r.number(), p.os, p.arch)
		list := slices.Clone(r.pages)
		for _, name := range texts {
			text, err := os.ReadFile(filepath.Join(r.root, name))
			if err != nil {
				return err
			}
			list = append(list, entry{name, 0o644, text})
		}
		for _, name := range names {
			from, file := r.command(p, name)
			b, err := os.ReadFile(from)
			if err != nil {
				return err
			}
			r.sums[base+"/"+file] = digest(b)
			list = append(list, entry{file, 0o755, b})
		}
		pack, end := targz, ".tar.gz"
		if p.os == "windows" {
			pack, end = zipped, ".zip"
		}
		b, err := pack(list, base+"/", r.time)
		if err != nil {
			return err
		}
		if err = r.write(base+end, b); err != nil {
			return err
		}
		sbom, err := r.sbom(p)
		if err != nil {
			return err
		}
		if err = r.write(base+".cdx.json", sbom); err != nil {
			return err
		}
	}
	return nil
}

func digest(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }

func sorted(list []entry) []entry {
	return slices.SortedFunc(slices.Values(list), func(a, b entry) int { return cmp.Compare(a.name, b.name) })
}

// gzipped compresses without a name and a time.
func gzipped(b []byte) ([]byte, error) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		return nil, err
	}
	err := w.Close()
	return out.Bytes(), err
}

// tarred returns an archive of the files and their folders, which root owns. All names begin with prefix.
func tarred(list []entry, prefix string, when time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	made := map[string]bool{".": true}
	for _, e := range sorted(list) {
		for _, dir := range missing(made, path.Dir(e.name)) {
			if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: prefix + dir + "/", Mode: 0o755, ModTime: when, Uname: "root", Gname: "root"}); err != nil {
				return nil, err
			}
		}
		head := &tar.Header{Typeflag: tar.TypeReg, Name: prefix + e.name, Mode: int64(e.mode), Size: int64(len(e.data)), ModTime: when, Uname: "root", Gname: "root"}
		if err := w.WriteHeader(head); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// missing returns a folder and the folders around it that are not made yet, the outermost first, and marks them.
func missing(made map[string]bool, dir string) []string {
	if made[dir] || dir == "/" {
		return nil
	}
	list := append(missing(made, path.Dir(dir)), dir)
	made[dir] = true
	return list
}

func targz(list []entry, prefix string, when time.Time) ([]byte, error) {
	b, err := tarred(list, prefix, when)
	if err != nil {
		return nil, err
	}
	return gzipped(b)
}

func zipped(list []entry, prefix string, when time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, e := range sorted(list) {
		head := &zip.FileHeader{Name: prefix + e.name, Method: zip.Deflate, Modified: when}
		head.SetMode(e.mode)
		f, err := w.CreateHeader(head)
		if err != nil {
			return nil, err
		}
		if _, err = f.Write(e.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}
