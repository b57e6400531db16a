package results_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/fedsim/fedsim/model"

	"github.com/fedsim/fedsim/internal/export"
)

// some returns two films with two numbers each, and a user with one.
func some(ids ...string) []model.Embeddings {
	films, users := model.NewMatrix(2, 2), model.NewMatrix(1, 1)
	copy(films.Data(), []float64{1, -0.5, 0.1, 3})
	copy(users.Data(), []float64{2})
	return []model.Embeddings{model.NewEmbeddings("item_embeddings", films, ids), model.NewEmbeddings("user_bias", users, []string{"ann"})}
}

func written(t *testing.T, format string, all []model.Embeddings) (dir string, files []string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "out")
	files, err := export.Write(format, dir, all)
	if err != nil {
		t.Fatal(err)
	}
	return dir, files
}

func contents(t *testing.T, dir, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestCSV(t *testing.T) {
	dir, files := written(t, "csv", some("7", "a, \"b\""))
	if d := cmp.Diff([]string{"item_embeddings.csv", "user_bias.csv"}, files); d != "" {
		t.Error(d)
	}
	if got, want := string(contents(t, dir, "item_embeddings.csv")), "id,e0,e1\n7,1,-0.5\n\"a, \"\"b\"\"\",0.1,3\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestParquet(t *testing.T) {
	dir, _ := written(t, "parquet", some("7", "8"))
	rows, err := parquet.ReadFile[struct {
		ID        string    `parquet:"id"`
		Embedding []float64 `parquet:"embedding,list"`
	}](filepath.Join(dir, "item_embeddings.parquet"))
	if err != nil || len(rows) != 2 || rows[1].ID != "8" || !cmp.Equal(rows[1].Embedding, []float64{0.1, 3}) {
		t.Errorf("%v, %v", rows, err)
	}
}

// The format's own description: u64 length, JSON with dtype, shape and offsets, numbers.
func TestSafetensors(t *testing.T) {
	dir, _ := written(t, "safetensors", some("7", "8"))
	b := contents(t, dir, "model.safetensors")
	n := binary.LittleEndian.Uint64(b)
	if n%8 != 0 {
		t.Errorf("a header of %d bytes: numbers are not aligned", n)
	}
	var header map[string]struct {
		Dtype   string
		Shape   []int
		Offsets []int             `json:"data_offsets"`
		Ids     string            `json:"item_embeddings.ids"`
		_       map[string]string // of __metadata__
	}
	if err := json.Unmarshal(b[8:8+n], &header); err != nil {
		t.Fatal(err)
	}
	x := header["item_embeddings"]
	data := b[8+n:][x.Offsets[0]:x.Offsets[1]]
	if x.Dtype != "F64" || !cmp.Equal(x.Shape, []int{2, 2}) || len(data) != 32 || math.Float64frombits(binary.LittleEndian.Uint64(data[8:])) != -0.5 {
		t.Errorf("%+v, %x", x, data)
	}
	if ids := header["__metadata__"].Ids; ids != `["7","8"]` {
		t.Errorf("ids %s", ids)
	}
	if y := header["user_bias"]; len(b) != int(8+n)+y.Offsets[1] || y.Offsets[0] != x.Offsets[1] {
		t.Errorf("the numbers of user_bias are at %v of %d", y.Offsets, len(b)-int(8+n))
	}
}

// By hand from write_index of FAISS: fourcc, int d, int64 ntotal, two int64 of 2^20, bool,
// int metric (0 is the inner product), size_t, floats.
func TestFAISS(t *testing.T) {
	dir, _ := written(t, "faiss", some("7", "8"))
	want, err := hex.DecodeString("49784649" + "02000000" + "0200000000000000" + "0000100000000000" + "0000100000000000" + "01" + "00000000" + "0400000000000000" +
		"0000803f" + "000000bf" + "cdcccc3d" + "00004040")
	if err != nil {
		t.Fatal(err)
	}
	if got := contents(t, dir, "item_embeddings.faiss"); !bytes.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
	if ids := string(contents(t, dir, "item_embeddings.ids.txt")); ids != "7\n8\n" {
		t.Errorf("ids %q", ids)
	}
}

func TestWord2Vec(t *testing.T) {
	dir, _ := written(t, "word2vec", some("7", "8"))
	if got, want := string(contents(t, dir, "item_embeddings.txt")), "2 2\n7 1 -0.5\n8 0.1 3\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	// As Python's urllib.parse.quote writes them.
	dir, _ = written(t, "word2vec", some("The 39 Steps", "100%\u00a0é"))
	if got, want := string(contents(t, dir, "item_embeddings.txt")), "2 2\nThe%2039%20Steps 1 -0.5\n100%25%C2%A0%C3%A9 0.1 3\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := string(contents(t, dir, "item_embeddings.ids.json")), "[\"The 39 Steps\",\"100%\u00a0é\"]\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// An export that fails leaves nothing behind, and leaves existing files alone.
func TestWhatCannotBe(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	if _, err := export.Write("word2vec", dir, some("7", "")); err == nil || !strings.Contains(err.Error(), "an id is empty") {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the folder is there: %v", err)
	}
	if _, err := export.Write("xml", dir, some("7", "8")); err == nil || !strings.Contains(err.Error(), "there are parquet, csv") {
		t.Error(err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := export.Write("csv", dir, some("7", "8")); !os.IsExist(err) {
		t.Errorf("a folder that is there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "mine")); err != nil {
		t.Error(err)
	}
	beside, err := os.ReadDir(filepath.Dir(dir))
	if err != nil || len(beside) != 1 {
		t.Errorf("%v, %v: nothing but that folder should be there", beside, err)
	}
	if _, err := export.Write("csv", filepath.Join(dir, "no", "where"), some("7", "8")); !os.IsNotExist(err) {
		t.Errorf("in a folder that is not there: %v", err)
	}
}
