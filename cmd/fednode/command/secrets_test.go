package command

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/sbinet/npyio"
	"gonum.org/v1/gonum/mat"
)

// shown returns an operator's view of a process.
func (m *machine) shown(ops string) string {
	m.t.Helper()
	var all strings.Builder
	for _, page := range []string{"/metrics", "/status"} {
		r, err := http.Get("http://" + ops + page)
		if err != nil {
			m.t.Fatal(err)
		}
		_, err = io.Copy(&all, r.Body)
		if _ = r.Body.Close(); err != nil { // only read
			m.t.Fatal(err)
		}
	}
	return all.String()
}

// checkLogs: what processes print and log, and what an operator sees of one of them, has none of
// the private keys that are in files of the machine, and no coordinate of an embedding.
func (m *machine) checkLogs(shown string, processes ...*process) {
	m.t.Helper()
	var all strings.Builder
	all.WriteString(shown)
	for _, p := range processes {
		fmt.Fprint(&all, p.out.String(), p.log.String())
	}
	// Metrics of the process and of Go count bytes and seconds, whose digits may be a coordinate's by chance.
	text := regexp.MustCompile(`(?m)^(process|go)_.*$`).ReplaceAllString(all.String(), "")
	if !strings.Contains(text, `"level":"debug","role":"client","logger":`) || !regexp.MustCompile(`"level":"debug","role":"\w+",[^l]`).MatchString(text) {
		m.t.Error("neither fednode nor libp2p logged at the level debug")
	}
	search := func(where string, forms ...string) {
		for _, form := range forms {
			if at := strings.Index(text, form); at >= 0 {
				m.t.Errorf("what is in %s was logged: %s", where, text[max(0, at-200):min(len(text), at+100)])
			}
		}
	}
	keys, embeddings := 0, 0
	err := filepath.WalkDir(m.dir, func(path string, d fs.DirEntry, err error) error {
		switch filepath.Ext(path) {
		case ".key", ".json":
			for _, key := range privateKeys(path) {
				keys++
				search(path, hex.EncodeToString(key), base64.RawStdEncoding.EncodeToString(key), base64.RawURLEncoding.EncodeToString(key),
					base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(key)[:50], letters(key)[:50], strings.Trim(fmt.Sprint(key), "[]"), string(key))
			}
		case ".npy":
			for _, x := range numbers(path) {
				if form := strings.TrimRight(fmt.Sprintf("%.7g", x), "0"); len(form) >= 8 { // no round number
					embeddings++
					search(path, form)
				}
			}
		}
		return err
	})
	// The operator's, the aggregator's, 8 tickets and 7 identities; 30 items and 6 users, of rank 1.
	if err != nil || keys < 17 || embeddings < 30 {
		m.t.Errorf("%d keys and %d coordinates to search for, %v", keys, embeddings, err)
	}
}

// letters is base32 as keys are written.
func letters(key []byte) string {
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(key))
}

// privateKeys returns the keys in a file: 32 bytes, and a checksum behind them.
func privateKeys(path string) [][]byte {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	var keys [][]byte
	for _, found := range regexp.MustCompile(`fedsim-private-([a-z2-7]{58})`).FindAllSubmatch(text, -1) {
		key, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(strings.ToUpper(string(found[1])))
		if err == nil {
			keys = append(keys, key[:32])
		}
	}
	return keys
}

func numbers(path string) []float64 {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close() //nolint:errcheck // only read
	var x mat.Dense
	if err = npyio.Read(f, &x); err != nil {
		return nil
	}
	return x.RawMatrix().Data
}
