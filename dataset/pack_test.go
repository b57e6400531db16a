package dataset_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/internal/dataset/pack"
	"github.com/fedsim/fedsim/internal/dataset/synthetic"
)

// The bounds of a packed file, as packed.md has them, for tests that make one by hand.
const (
	packMagic  = "FEDSIMP1"
	packTail   = 8 + 32 + len(packMagic) // the length of the footer, the digest, and the magic again
	packLevels = 65_536
)

// packedBytes is a set in the packed form.
func packedBytes(t testing.TB, s *dataset.Set) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := pack.Write(s, &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// packedFile is a file of bytes.
func packedFile(t testing.TB, b []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "set.pack")
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// small is a set with ids that are no numbers, ratings between steps, and features.
func smallSet(t testing.TB) *dataset.Set {
	t.Helper()
	lo, hi := 0., 5.
	set, err := read.FromRatings("mine", []read.Rating{
		{User: "ada", Item: "x", Value: 5}, {User: "ada", Item: "z", Value: 0.5}, {User: "bob", Item: "y", Value: 3.25},
		{User: "eve", Item: "z", Value: 5}, {User: "eve", Item: "w", Value: 0},
	}, read.Options{Min: &lo, Max: &hi})
	if err != nil {
		t.Fatal(err)
	}
	set.Titles, set.Genres, set.Years = []string{"W", "", "Y", "Z"}, [][]string{{"a", "b"}, nil, nil, {"c"}}, []int{1999, 0, 0, 2001}
	set.Columns = []dataset.ItemColumn{{Name: "maker", Values: [][]string{{"m"}, nil, {"n", "m"}, nil}}}
	set.Digest = set.ComputeDigest()
	return set
}

// TestPackedSetIsTheSame: a packed file reads as the set that was packed, with the digest that the set
// has from any source.
func TestPackedSetIsTheSame(t *testing.T) {
	sets := map[string]*dataset.Set{"small": smallSet(t)}
	for _, spec := range []string{"synthetic:small", "synthetic:ml-1m-100"} {
		set, err := read.Open(t.Context(), spec, read.Options{})
		if err != nil {
			t.Fatal(err)
		}
		sets[spec] = set
	}
	for name, set := range sets {
		t.Run(name, func(t *testing.T) {
			got, err := read.Open(t.Context(), packedFile(t, packedBytes(t, set)), read.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if d := diff(set, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestPackOfShape: a shape packed as it is generated has the file of the generated set, except for its
// list of steps. That list holds all steps that ratings of the shape may have. The same set is read
// from both.
func TestPackOfShape(t *testing.T) {
	for _, spec := range []string{"synthetic:small", "synthetic:msd-200"} {
		set, err := read.Open(t.Context(), spec, read.Options{})
		if err != nil && strings.Contains(spec, "msd") { // so few users cannot rate every song
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		var streamed bytes.Buffer
		p, err := read.Pack(t.Context(), spec, read.Options{}, &streamed)
		if err != nil {
			t.Fatal(err)
		}
		if p.Digest != set.Digest || p.Ratings != set.Len() || p.Bytes != int64(streamed.Len()) {
			t.Errorf("%+v of a set of %d ratings with the digest %s in %d bytes", p, set.Len(), set.Digest, streamed.Len())
		}
		if perRating := float64(p.Bytes) / float64(p.Ratings); perRating > 8 {
			t.Errorf("%.2f bytes a rating, of which there may be 8", perRating)
		}
		got, err := read.Open(t.Context(), packedFile(t, streamed.Bytes()), read.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if d := diff(set, got); d != "" {
			t.Error(d)
		}
	}
}

// TestPackedRatings: ratings that stay packed equal the ratings in columns, as a whole, by user, and
// in the parts of a split. The split has the same digest.
func TestPackedRatings(t *testing.T) {
	set, err := read.Open(t.Context(), "synthetic:small", read.Options{})
	if err != nil {
		t.Fatal(err)
	}
	packed, err := read.Open(t.Context(), packedFile(t, packedBytes(t, set)), read.Options{Packed: true})
	if err != nil {
		t.Fatal(err)
	}
	if packed.Packed == nil || packed.User != nil || packed.Len() != set.Len() || packed.Mean() != set.Mean() {
		t.Fatalf("%d ratings, mean %v; want %d packed ones, %v", packed.Len(), packed.Mean(), set.Len(), set.Mean())
	}
	if d := diff(set.Info(), packed.Info()); d != "" {
		t.Error(d)
	}
	p := split.Params{Test: 0.2, Validation: 0.1, Seed: 3}
	want, err := split.Divide(set, p)
	if err != nil {
		t.Fatal(err)
	}
	got, err := split.Divide(packed, p)
	if err != nil {
		t.Fatal(err)
	}
	if got.Digest != want.Digest {
		t.Errorf("digest %s, want %s", got.Digest, want.Digest)
	}
	for _, part := range []struct{ got, want dataset.Ratings }{{packed.Ratings, set.Ratings}, {got.Train, want.Train}, {got.Validation, want.Validation}, {got.Test, want.Test}} {
		if d := diff(part.want, part.got.Unpack()); d != "" {
			t.Fatal(d)
		}
		packed, wanted := part.got.ByUser(), part.want.ByUser()
		if packed.Len() != wanted.Len() {
			t.Fatalf("%d rows, want %d", packed.Len(), wanted.Len())
		}
		for _, rows := range []*dataset.Rows{packed, packed.Unpacked(0), packed.Unpacked(part.want.Len() / 2), packed.Unpacked(1 << 40), wanted.Unpacked(0)} {
			for u := range rows.Len() {
				items, values := rows.Row(u)
				var lentItems []int32
				var lentValues []float32
				rows.Lend(u, func(items []int32, values []float32) {
					lentItems, lentValues = slices.Clone(items), slices.Clone(values)
				})
				wantItems, wantValues := wanted.Row(u)
				if !slices.Equal(items, wantItems) || !slices.Equal(values, wantValues) || !slices.Equal(lentItems, wantItems) || !slices.Equal(lentValues, wantValues) {
					t.Fatalf("user %d: %v %v, lent %v %v, want %v %v", u, items, values, lentItems, lentValues, wantItems, wantValues)
				}
			}
		}
		held := packed.Unpacked(part.want.Len())
		one, _ := held.Row(0)
		again, _ := held.Row(0)
		if len(one) > 0 && &one[0] != &again[0] {
			t.Fatal("the first row was unpacked again")
		}
	}
	h, err := split.Divide(packed, split.Params{Users: split.UsersHeldOut, Test: 0.2, Validation: 0.1, Positive: 3, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	wantHeld, err := split.Divide(set, split.Params{Users: split.UsersHeldOut, Test: 0.2, Validation: 0.1, Positive: 3, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	if d := diff(wantHeld, h); d != "" {
		t.Error(d)
	}
}

// TestRawRatings: more distinct ratings than a scale may have steps stand as floats.
func TestRawRatings(t *testing.T) {
	lo, hi := 0., 1.
	list := make([]read.Rating, packLevels+10)
	for k := range list {
		list[k] = read.Rating{User: string(rune('a' + k%3)), Item: "i" + string(rune(0x4e00+k/3)), Value: float64(k) / float64(len(list))}
	}
	set, err := read.FromRatings("many", list, read.Options{Min: &lo, Max: &hi})
	if err != nil {
		t.Fatal(err)
	}
	got, err := read.Open(t.Context(), packedFile(t, packedBytes(t, set)), read.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if d := diff(set, got); d != "" {
		t.Error(d)
	}
	packed, err := pack.FromBytes(t.Context(), packedBytes(t, set), pack.Options{Packed: true})
	if err != nil {
		t.Fatal(err)
	}
	parts, err := split.Divide(packed, split.Params{Validation: 0.3})
	want, err2 := split.Divide(set, split.Params{Validation: 0.3})
	if err = errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	for _, part := range []struct{ got, want dataset.Ratings }{{parts.Train, want.Train}, {parts.Validation, want.Validation}, {parts.Test, want.Test}} {
		if d := diff(part.want, part.got.Unpack()); d != "" {
			t.Fatal(d)
		}
	}
}

// rebuilt is a packed file with its footer changed, and a digest that holds.
func rebuilt(t testing.TB, b []byte, change func(footer map[string]any, sections []byte) []byte) []byte {
	t.Helper()
	tail := len(b) - packTail
	at := tail - int(binary.LittleEndian.Uint64(b[tail:]))
	var footer map[string]any
	if err := json.Unmarshal(b[at:tail], &footer); err != nil {
		t.Fatal(err)
	}
	sections := change(footer, slices.Clone(b[len(packMagic):at]))
	text, err := json.Marshal(footer)
	if err != nil {
		t.Fatal(err)
	}
	return sealed(slices.Concat([]byte(packMagic), sections, text), len(text))
}

// sealed adds the tail to a packed file.
func sealed(b []byte, footer int) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(footer))
	sum := sha256.Sum256(b)
	return append(append(b, sum[:]...), packMagic...)
}

// TestPackedByHand: a file that was written out by the description (dataset/packed.md) alone.
func TestPackedByHand(t *testing.T) {
	// Two users, three items, steps 1, 2, 3 of two bits: user 1 gave item 1 a 3 and item 3 a 1; user 2 item 2 a 2.
	records := []byte{2, 0<<2 | 2, 1 << 2, 1, 1<<2 | 1}
	offsets := make([]byte, 24)
	offsets[8], offsets[16] = 3, 5
	ids := []byte("\x01p\x02qq")
	features := []byte(`{"titles":["a","b","c"]}`)
	want, err := read.FromRatings("hand", []read.Rating{{User: "p", Item: "1", Value: 3}, {User: "p", Item: "3", Value: 1}, {User: "qq", Item: "2", Value: 2}},
		read.Options{Min: new(1.), Max: new(3.)})
	if err != nil {
		t.Fatal(err)
	}
	want.Titles = []string{"a", "b", "c"}
	want.Digest = want.ComputeDigest()
	footer := `{"name":"hand","digest":"` + want.Digest + `","min":1,"max":3,"users":2,"items":3,"ratings":3,"levels":[1,2,3],` +
		`"records_bytes":5,"user_ids_bytes":5,"item_ids_bytes":0,"features_bytes":24}`
	file := sealed(slices.Concat([]byte("FEDSIMP1"), records, offsets, ids, features, []byte(footer)), len(footer))
	got, err := read.Open(t.Context(), packedFile(t, file), read.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if d := diff(want, got); d != "" {
		t.Error(d)
	}
	if d := diff(file, packedBytes(t, want)); d != "" {
		t.Error(d)
	}
}

// TestHostilePackedFiles: whatever is wrong with a packed file is an error that says what.
func TestHostilePackedFiles(t *testing.T) {
	good := packedBytes(t, smallSet(t))
	damaged := func(at int) []byte {
		b := slices.Clone(good)
		b[at] ^= 1
		return b
	}
	set := func(key string, value any) []byte {
		return rebuilt(t, good, func(f map[string]any, s []byte) []byte { f[key] = value; return s })
	}
	records := func(b ...byte) []byte { // of the first user, in place of as many bytes
		return rebuilt(t, good, func(_ map[string]any, s []byte) []byte { copy(s, b); return s })
	}
	offsets := func(user int, at uint64) []byte {
		return rebuilt(t, good, func(f map[string]any, s []byte) []byte {
			binary.LittleEndian.PutUint64(s[int(f["records_bytes"].(float64))+8*user:], at)
			return s
		})
	}
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"newer":               {append([]byte("FEDSIMP2"), good[8:]...), `of version "2" of the packed form`},
		"begins only":         {good[:8], "was cut off"},
		"truncated":           {good[:len(good)-1], "cut off"},
		"half":                {good[:len(good)/2], "cut off"},
		"damaged":             {damaged(9), "SHA-256"},
		"damaged digest":      {damaged(len(good) - 20), "SHA-256"},
		"long footer":         {damaged(len(good) - packTail + 6), "a footer of"},
		"no footer":           {rebuilt(t, good, func(f map[string]any, s []byte) []byte { clear(f); return s }), "sections"},
		"footer of text":      {sealed([]byte("FEDSIMP1{]"), 2), "no JSON"},
		"users":               {set("users", 4), "sections"},
		"users without end":   {set("users", int64(1)<<60), "cannot be"},
		"negative":            {set("records_bytes", -1), "cannot be"},
		"items":               {set("items", 3), "item ids"},
		"items without end":   {set("items", int64(1)<<40), "cannot be"},
		"ratings":             {set("ratings", 4), "4 ratings by the footer, and 5"},
		"ratings without end": {set("ratings", int64(1)<<40), "cannot be"},
		"scale":               {set("max", -1), "a scale from"},
		"steps":               {set("levels", []float32{0, 0.5, 5}), "step 3 of a scale of 3"},
		"steps in disorder":   {set("levels", []float32{0, 3, 0.5, 5}), "step 0.5 of the scale"},
		"steps off the scale": {set("levels", []float32{0, 1, 2, 6}), "step 6 of the scale"},
		"no steps":            {set("levels", nil), "0 steps"},
		"digest":              {set("digest", "abc"), "no SHA-256 in hex"},
		"another digest":      {set("digest", strings.Repeat("0", 64)), "does not match the digest"},
		"count of ratings":    {records(200, 1), "200 ratings in"},
		"fewer ratings":       {records(1), "bytes behind its ratings"},
		"more ratings":        {records(3), "ratings in 2 bytes"},
		"item beyond":         {records(2, 4<<2), "beyond the 4"},
		"number cut off":      {records(2, 0x80, 0x80), "cut off"},
		"offset":              {offsets(1, 99), "offset 1 of 3 is 99"},
		"offset that falls":   {offsets(2, 1), "below the previous offset"},
		"first offset":        {offsets(0, 1), "longer than its offsets"},
		"features of others":  {rebuilt(t, good, func(_ map[string]any, s []byte) []byte { return bytes.Replace(s, []byte(`"Y",`), []byte(`"Y" `), 1) }), "features"},
		"ids out of order": {rebuilt(t, good, func(_ map[string]any, s []byte) []byte {
			return bytes.Replace(s, []byte("\x03bob"), []byte("\x03zob"), 1)
		}), "out of order"},
		"ids that are no text": {rebuilt(t, good, func(_ map[string]any, s []byte) []byte {
			return bytes.Replace(s, []byte("\x03bob"), []byte("\x03\xff\xff\xff"), 1)
		}), "UTF-8"},
		"ids cut off": {rebuilt(t, good, func(_ map[string]any, s []byte) []byte {
			return bytes.Replace(s, []byte("\x03bob"), []byte("\x70bob"), 1)
		}), "cut off"},
	} {
		t.Run(name, func(t *testing.T) {
			path := packedFile(t, c.file)
			_, err := read.Open(t.Context(), path, read.Options{})
			if !errors.Is(err, pack.ErrNotPacked) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one about %q", err, c.want)
			}
		})
	}
}

// TestPackRefuses: what the packed form does not hold, and what it cannot be asked for.
func TestPackRefuses(t *testing.T) {
	set := smallSet(t)
	set.Times = make([]float64, set.Len())
	if _, err := pack.Write(set, io.Discard); !errors.Is(err, pack.ErrNotPackable) {
		t.Errorf("timestamps: %v", err)
	}
	if _, err := read.Pack(t.Context(), "synthetic:none", read.Options{}, io.Discard); !errors.Is(err, synthetic.ErrUnknownShape) {
		t.Errorf("an unknown shape: %v", err)
	}
	path := packedFile(t, packedBytes(t, smallSet(t)))
	if _, err := read.Open(t.Context(), path, read.Options{Times: true}); err == nil || !strings.Contains(err.Error(), "no timestamps") {
		t.Errorf("timestamps of a packed file: %v", err)
	}
	if _, err := read.Open(t.Context(), path, read.Options{Max: new(4.)}); !errors.Is(err, dataset.ErrScale) {
		t.Errorf("a narrower scale: %v", err)
	}
	if _, err := read.Open(t.Context(), "-", read.Options{Input: bytes.NewReader(packedBytes(t, smallSet(t)))}); err == nil || !strings.Contains(err.Error(), "from its path") {
		t.Errorf("from a pipe: %v", err)
	}
	full := errors.New("disk full")
	for _, room := range []int{0, 100, 20_000} {
		if _, err := read.Pack(t.Context(), "synthetic:small", read.Options{}, &limitedWriter{room, full}); !errors.Is(err, full) {
			t.Errorf("with room for %d bytes: %v", room, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := read.Pack(ctx, "synthetic:small", read.Options{}, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

// limitedWriter fails when its room is used up.
type limitedWriter struct {
	room int
	err  error
}

func (w *limitedWriter) Write(b []byte) (int, error) {
	if len(b) > w.room {
		return 0, w.err
	}
	w.room -= len(b)
	return len(b), nil
}

// FuzzPacked: no bytes make the reader panic, or take memory beyond what they are; what it accepts is a valid set that is packed to
// ratings that are read as the same.
func FuzzPacked(f *testing.F) {
	good := packedBytes(f, smallSet(f))
	f.Add(good[len(packMagic):len(good)-packTail], uint16(len(good)))
	tail := len(good) - packTail
	f.Add(good[len(packMagic):tail], uint16(binary.LittleEndian.Uint64(good[tail:])))
	f.Fuzz(func(t *testing.T, body []byte, footer uint16) {
		set, err := pack.FromBytes(t.Context(), sealed(append([]byte(packMagic), body...), int(footer)), pack.Options{})
		if err != nil {
			return
		}
		columns := set.Unpacked()
		if err = columns.Validate(); err != nil {
			t.Fatal(err)
		}
		again, err := pack.FromBytes(t.Context(), packedBytes(t, columns), pack.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if d := diff(columns.Ratings, again.Unpack()); d != "" {
			t.Fatal(d)
		}
	})
}

// diff is [cmp.Diff], which takes long for what is equal.
func diff(want, got any) string {
	if reflect.DeepEqual(want, got) {
		return ""
	}
	return cmp.Diff(want, got)
}

// TestPackSaysThatTimesAreLeftOut: the packed form has no timestamps. A set with times is packed without them, and a notice says so, also of
// a shape that is packed as it is generated. The digest is the digest of the set without times.
func TestPackSaysThatTimesAreLeftOut(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ratings.csv")
	if err := os.WriteFile(file, []byte("user,item,rating,timestamp\na,x,3,1600000000\na,y,4,1600000001\nb,x,5,1600000002\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for spec, want := range map[string]int{file: 1, "synthetic:moving": 1, "synthetic:small": 0} {
		set, err := read.Open(t.Context(), spec, read.Options{})
		if err != nil {
			t.Fatal(err)
		}
		p, err := read.Pack(t.Context(), spec, read.Options{}, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		told := 0
		for _, n := range p.Notices {
			if n.Kind == dataset.NoticeTimes {
				told++
			}
		}
		if told != want || p.Digest != set.Digest {
			t.Errorf("%s: %d notices of times, want %d; digest %s, want %s; %v", spec, told, want, p.Digest, set.Digest, p.Notices)
		}
	}
}
