package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"aead.dev/minisign"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// fake is a release of Linux whose commands are the binary of this test.
func fake(t *testing.T) *release {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	r := &release{
		ctx: t.Context(), root: root, to: t.TempDir(), scratch: t.TempDir(), version: "v1.2.3-rc1", revision: "abc", time: time.Unix(1_700_000_000, 0).UTC(),
		platforms: []platform{{"linux", "arm64"}}, sums: map[string]string{}, pages: []entry{{"man/fedsim.1", 0o644, []byte("page\n")}},
	}
	r.commands = map[platform]string{r.platforms[0]: r.scratch}
	_, secret, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	r.key = &signer{secret: secret}
	for _, name := range names {
		if err = os.WriteFile(filepath.Join(r.scratch, name), b, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []func() error{r.archives, r.packages, r.image, r.sign} {
		if err = step(); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func TestRelease(t *testing.T) {
	r := fake(t)
	for name, test := range map[string]func(*testing.T, *release){"files": files, "image": image, "package": debianPackage, "units": units} {
		t.Run(name, func(t *testing.T) { test(t, r) })
	}
}

// entries returns the names of the entries of an archive.
func entries(t *testing.T, b io.Reader) (list []string) {
	t.Helper()
	for r := tar.NewReader(b); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.ModTime.Unix() != 1_700_000_000 {
			t.Errorf("%s is of %v", h.Name, h.ModTime)
		}
		list = append(list, h.Name)
	}
}

func files(t *testing.T, r *release) {
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(r.to, name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	packed, err := gzip.NewReader(bytes.NewReader(read("fedsim_1.2.3-rc1_linux_arm64.tar.gz")))
	if err != nil {
		t.Fatal(err)
	}
	got := entries(t, packed)
	for _, name := range []string{"fedsim", "fednode", "LICENSE", "man/fedsim.1"} {
		if want := "fedsim_1.2.3-rc1_linux_arm64/" + name; !slices.Contains(got, want) {
			t.Errorf("the archive lacks %s: %v", want, got)
		}
	}
	var bom struct {
		Format     string `json:"bomFormat"`
		Components []struct{ Name, Purl string }
	}
	if err = json.Unmarshal(read("fedsim_1.2.3-rc1_linux_arm64.cdx.json"), &bom); err != nil || bom.Format != "CycloneDX" {
		t.Fatal(bom.Format, err)
	}
	has := func(purl string) bool {
		for _, c := range bom.Components {
			if strings.HasPrefix(c.Purl, purl) {
				return true
			}
		}
		return false
	}
	if !has("pkg:golang/std@go1") || !has("pkg:golang/aead.dev/minisign@v0.3.0") {
		t.Errorf("the SBOM lacks modules: %v", bom.Components)
	}
	if list := string(read("SHA256SUMS")); strings.Count(list, "\n") != 6 || !strings.Contains(list, digest(read("fedsim_1.2.3~rc1_arm64.deb"))+"  fedsim_1.2.3~rc1_arm64.deb\n") {
		t.Errorf("SHA256SUMS:\n%s", list)
	}
	if public, ok := r.key.secret.Public().(minisign.PublicKey); !ok || !minisign.Verify(public, read("SHA256SUMS"), read("SHA256SUMS.minisig")) {
		t.Error("the signature is wrong")
	}
}

// image has the validator of the library compute all digests and sizes again.
func image(t *testing.T, r *release) {
	index, err := layout.ImageIndexFromPath(filepath.Join(r.scratch, "oci"))
	if err != nil {
		t.Fatal(err)
	}
	if err = validate.Index(index); err != nil {
		t.Error(err)
	}
}

// debianPackage has dpkg read the package.
func debianPackage(t *testing.T, r *release) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip(err)
	}
	file := filepath.Join(r.to, "fedsim_1.2.3~rc1_arm64.deb")
	said, err := exec.Command("dpkg-deb", "--field", file, "Package", "Version", "Architecture").CombinedOutput()
	if want := "Package: fedsim\nVersion: 1.2.3~rc1\nArchitecture: arm64\n"; err != nil || string(said) != want {
		t.Errorf("%q, %v; want %q", said, err, want)
	}
	said, err = exec.Command("dpkg-deb", "--fsys-tarfile", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	got := entries(t, bytes.NewReader(said))
	for _, want := range []string{"./usr/", "./usr/bin/fednode", "./usr/share/man/man1/fedsim.1.gz", "./usr/lib/systemd/system/fednode-server.service"} {
		if !slices.Contains(got, want) {
			t.Errorf("the package lacks %s: %v", want, got)
		}
	}
}

// units of the package start the command of the package.
func units(t *testing.T, r *release) {
	list, err := r.installed(r.platforms[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if strings.HasSuffix(e.name, ".service") && !strings.Contains(string(e.data), "\nExecStart=/usr/bin/fednode ") {
			t.Errorf("%s:\n%s", e.name, e.data)
		}
	}
}

// Zip, tar and package of the same files are the same bytes in any order.
func TestOrderDoesNotMatter(t *testing.T) {
	when := time.Unix(1_700_000_000, 0).UTC()
	a, b := entry{"b", 0o644, []byte("1")}, entry{"a/c", 0o755, []byte("2")}
	packed := func(list []entry, _ string, when time.Time) ([]byte, error) {
		return (&release{time: when}).debian(list, "1.2.3", "arm64")
	}
	for _, pack := range []func([]entry, string, time.Time) ([]byte, error){targz, zipped, packed} {
		x, err := pack([]entry{a, b}, "p/", when)
		if err != nil {
			t.Fatal(err)
		}
		if y, err := pack([]entry{b, a}, "p/", when); err != nil || !bytes.Equal(x, y) {
			t.Errorf("other bytes, %v", err)
		}
	}
}
