package version

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"aead.dev/minisign"
)

// mostSums limits the list of digests and its signature, in bytes.
const mostSums = 1 << 20

// ErrNotSigned is wrapped by the error for a file that no signed list vouches for.
var ErrNotSigned = errors.New("not a file of a signed release")

// Check checks that a file belongs to a release: that sums, a list as sha256sum writes it, has the file's digest, and that
// sums.minisig is the list's signature by the key. An empty key stands for the key of this build. It returns a sentence that
// names the file in the release, the release and the key. Only local files are read.
func Check(file, sums, key string) (string, error) {
	public, err := publicKey(key)
	if err != nil {
		return "", err
	}
	list, release, err := signedList(sums, public)
	if err != nil {
		return "", err
	}
	digest, err := Digest(file)
	if err != nil {
		return "", err
	}
	found, err := listed(list, digest, filepath.Base(file))
	if err != nil {
		return "", fmt.Errorf("%s: %w: %w", file, ErrNotSigned, err)
	}
	return fmt.Sprintf("%s: %s of %s, signed by the key %X", file, found, release, public.ID()), nil
}

// publicKey reads a key, or else the key of this build.
func publicKey(text string) (public minisign.PublicKey, err error) {
	if text == "" {
		text = releaseKey
	}
	if text == "" {
		return public, errors.New("this build has no key of releases: give the public key, as the page of the release prints it, with --key")
	}
	if err = public.UnmarshalText([]byte(text)); err != nil {
		return public, fmt.Errorf("--key: %q is no public key of minisign: %w", text, err)
	}
	return public, nil
}

// signedList reads a list whose signature is right, and the name of the release that was signed with it.
func signedList(path string, public minisign.PublicKey) (list []byte, release string, err error) {
	if list, err = small(path); err != nil {
		return nil, "", fmt.Errorf("the list of digests (--sums): %w", err)
	}
	text, err := small(path + ".minisig")
	if err != nil {
		return nil, "", fmt.Errorf("the signature of the list: %w", err)
	}
	var signature minisign.Signature
	if err = signature.UnmarshalText(text); err != nil {
		return nil, "", fmt.Errorf("%s.minisig: %w: %w", path, ErrNotSigned, err)
	}
	if !minisign.Verify(public, list, text) {
		return nil, "", fmt.Errorf("%s: %w: %s.minisig is no signature of it by the key %X", path, ErrNotSigned, filepath.Base(path), public.ID())
	}
	return list, signature.TrustedComment, nil
}

// small reads a file of at most mostSums bytes.
func small(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	b, err := io.ReadAll(io.LimitReader(f, mostSums+1))
	if err == nil && len(b) > mostSums {
		err = fmt.Errorf("%s has more than %d bytes", path, mostSums)
	}
	return b, err
}

// listed returns the name that a list has for a digest. name is the name of the file, for the error.
func listed(list []byte, digest, name string) (string, error) {
	other := ""
	for lines := bufio.NewScanner(bytes.NewReader(list)); lines.Scan(); {
		sum, of, ok := strings.Cut(lines.Text(), "  ")
		if ok && sum == digest {
			return of, nil
		}
		if ok && of == name {
			other = sum
		}
	}
	if other != "" {
		return "", fmt.Errorf("its digest is %s, and the signed list has %s for %s", digest, other, name)
	}
	return "", fmt.Errorf("the signed list has no file with its digest, %s", digest)
}
