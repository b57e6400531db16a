package internal_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/internal/dataset/download"
	"github.com/fedsim/fedsim/internal/dataset/published"
)

// Get a set from a mirror of one's own, and open it.
func ExampleGet() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	mirror := tinyMirror()
	defer mirror.Close()

	cache := published.Cache(dir)
	result, err := download.Get(context.Background(), "ml-latest-small", download.Params{Mirror: mirror.URL, Cache: cache})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Checked)
	set, err := read.Open(context.Background(), "ml-latest-small", read.Options{Cache: cache})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(set.Name, set.Len())

	// Get keeps only the archive that was published under that name.
	_, err = download.Get(context.Background(), "ml-1m", download.Params{Mirror: mirror.URL, Cache: cache})
	fmt.Println(errors.Is(err, download.ErrDigest))
	// Output:
	// checked against the digest published beside it, not one built in
	// ml-latest-small 1
	// true
}

// tinyMirror serves an archive of one rating under every name.
func tinyMirror() *httptest.Server {
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	f, err := w.Create("ml/ratings.csv")
	if err == nil {
		_, err = f.Write([]byte("userId,movieId,rating,timestamp\n1,2,3.5,964982703\n"))
	}
	if err = errors.Join(err, w.Close()); err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Write(archive.Bytes()) //nolint:errcheck // an example
	})
	mux.HandleFunc("/ml-latest-small.zip.md5", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "MD5 (ml-latest-small.zip) = %x\n", md5.Sum(archive.Bytes()))
	})
	return httptest.NewServer(mux)
}
