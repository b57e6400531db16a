package internal_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math/big"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/fedsim/fedsim/internal/secagg/shamir"
)

// TestShamirVectors follows testdata/split.json, which a program in another language
// computed with integers of its own. Every t shares that stand together recover
// the secret.
func TestShamirVectors(t *testing.T) {
	file, err := os.ReadFile("testdata/split.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Name           string
		Threshold      int
		Holders        []shamir.Index
		Secret, Random string
		Shares         []string
	}
	if err = json.Unmarshal(file, &vectors); err != nil {
		t.Fatal(err)
	}
	if len(vectors) != 6 {
		t.Fatalf("%d vectors, want 6", len(vectors))
	}
	for _, v := range vectors {
		t.Run(v.Name, func(t *testing.T) {
			secret, err := shamir.ParseSecret(unhex(t, v.Secret))
			if err != nil {
				t.Fatal(err)
			}
			shares, err := shamir.Split(secret, v.Threshold, v.Holders, bytes.NewReader(unhex(t, v.Random)))
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range shares {
				if b := s.Bytes(); hex.EncodeToString(b[:]) != v.Shares[i] || s.Holder != v.Holders[i] {
					t.Errorf("share %d: %x of holder %d, want %s of %d", i, b, s.Holder, v.Shares[i], v.Holders[i])
				}
			}
			for i := 0; i+v.Threshold <= len(shares); i++ {
				if got := combine(t, v.Threshold, shares[i:i+v.Threshold]); !got.Equal(secret) {
					t.Errorf("shares from %d on give %x, want %s", i, got.Bytes(), v.Secret)
				}
			}
		})
	}
}

// TestAnyThresholdRecovers splits and recovers from a random choice of at least t holders in random
// order; the oracle gives the expected shares.
func TestAnyThresholdRecovers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDealing(t)
		shares := d.split(t)
		for i, s := range shares {
			want := encode(at(coefficients(d.secret, d.random), big.NewInt(int64(d.holders[i]))), shamir.Size)
			if got := s.Bytes(); !bytes.Equal(got[:], want) {
				t.Fatalf("share of holder %d: %x, want %x", s.Holder, got, want)
			}
		}
		chosen := rapid.Permutation(shares).Draw(t, "order")[:rapid.IntRange(d.threshold, len(shares)).Draw(t, "chosen")]
		got := combine(t, d.threshold, chosen).Bytes()
		if want := encode(d.secret, shamir.Size); !bytes.Equal(got[:], want) {
			t.Fatalf("recovered %x, want %x", got, want)
		}
	})
}

// TestFewerRevealNothing: for the shares of any t-1 holders and any other secret the oracle finds
// the only polynomial through both. Dealing that other secret with the coefficients found gives
// these holders the very same shares. So with t-1 shares in hand every secret is as likely as
// before.
func TestFewerRevealNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDealing(t)
		seen := rapid.Permutation(d.split(t)).Draw(t, "order")[:d.threshold-1]
		other := drawScalar(t, "other secret")
		x, y := []*big.Int{new(big.Int)}, []*big.Int{other}
		for _, s := range seen {
			b := s.Bytes()
			x, y = append(x, big.NewInt(int64(s.Holder))), append(y, number(b[:]))
		}
		var random []byte
		for _, c := range through(x, y)[1:] {
			random = append(random, encode(c, 64)...)
		}
		for _, s := range (dealing{other, d.threshold, d.holders, random}).split(t) {
			if i := slices.IndexFunc(seen, func(o shamir.Share) bool { return o.Holder == s.Holder }); i >= 0 && s.Bytes() != seen[i].Bytes() {
				t.Fatalf("holder %d: share %x of the other secret, saw %x", s.Holder, s.Bytes(), seen[i].Bytes())
			}
		}
	})
}

// TestWrongShare changes one share of t. The weights being non-zero, each change
// gives a different wrong secret: the oracle says which.
func TestWrongShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDealing(t)
		shares := d.split(t)[:d.threshold]
		i := rapid.IntRange(0, len(shares)-1).Draw(t, "which")
		bad := encode(drawScalar(t, "wrong share"), shamir.Size)
		if right := shares[i].Bytes(); bytes.Equal(bad, right[:]) {
			t.Skip("the share is right")
		}
		var err error
		if shares[i], err = shamir.ParseShare(shares[i].Holder, bad); err != nil {
			t.Fatal(err)
		}
		var x, y []*big.Int
		for _, s := range shares {
			b := s.Bytes()
			x, y = append(x, big.NewInt(int64(s.Holder))), append(y, number(b[:]))
		}
		got := combine(t, d.threshold, shares).Bytes()
		if bytes.Equal(got[:], encode(d.secret, shamir.Size)) {
			t.Fatal("a wrong share gave the right secret")
		}
		if want := encode(through(x, y)[0], shamir.Size); !bytes.Equal(got[:], want) {
			t.Fatalf("a wrong share gave %x, the polynomial through it has %x", got, want)
		}
	})
}

// TestWeightsServeManySecrets combines two secrets with one set of weights.
func TestWeightsServeManySecrets(t *testing.T) {
	holders := []shamir.Index{9, 4, 30, 2}
	weights, err := shamir.NewLagrange(3, holders[1:])
	if err != nil {
		t.Fatal(err)
	}
	random := rand.NewChaCha8([32]byte{1})
	for range 2 {
		secret, err := shamir.NewSecret(random)
		if err != nil {
			t.Fatal(err)
		}
		shares, err := shamir.Split(secret, 3, holders, random)
		if err != nil {
			t.Fatal(err)
		}
		got, err := weights.Combine(shares[1:])
		if err != nil || !got.Equal(secret) {
			t.Errorf("got %x, %v; want %x", got.Bytes(), err, secret.Bytes())
		}
	}
}

// TestNewSecretReduces: 64 bytes, little endian, modulo ℓ, against the oracle.
func TestNewSecretReduces(t *testing.T) {
	for _, seed := range [][]byte{bytes.Repeat([]byte{0xff}, 64), encode(order, 64), append(make([]byte, 63), 1), bytes.Repeat([]byte{1, 2}, 32)} {
		got, err := shamir.NewSecret(bytes.NewReader(seed))
		if err != nil {
			t.Fatal(err)
		}
		want := encode(new(big.Int).Mod(number(seed), order), shamir.Size)
		if b := got.Bytes(); !bytes.Equal(b[:], want) {
			t.Errorf("seed %x: %x, want %x", seed, b, want)
		}
	}
}

func TestShamirErrors(t *testing.T) {
	random := rand.NewChaCha8([32]byte{2})
	good := []shamir.Index{1, 2, 3}
	shares, err := shamir.Split(shamir.Secret{}, 2, good, random)
	if err != nil {
		t.Fatal(err)
	}
	weights, err := shamir.NewLagrange(2, good[:2])
	if err != nil {
		t.Fatal(err)
	}
	split := func(threshold int, holders ...shamir.Index) error {
		got, err := shamir.Split(shamir.Secret{}, threshold, holders, random)
		if got != nil {
			t.Errorf("shares beside the error %v", err)
		}
		return err
	}
	lagrange := func(threshold int, holders ...shamir.Index) error {
		_, err := shamir.NewLagrange(threshold, holders)
		return err
	}
	combine := func(s ...shamir.Share) error {
		_, err := weights.Combine(s)
		return err
	}
	secret := func(b []byte) error { _, err := shamir.ParseSecret(b); return err }
	share := func(h shamir.Index, b []byte) error { _, err := shamir.ParseShare(h, b); return err }
	for _, c := range []struct {
		err  error
		is   error
		text string
	}{
		{split(0, good...), shamir.ErrThreshold, "0; it must be at least 1"},
		{split(-1, good...), shamir.ErrThreshold, "-1; it must be at least 1"},
		{split(4, good...), shamir.ErrThreshold, "4 shares would be needed and there are 3 holders"},
		{split(1), shamir.ErrThreshold, "there are 0 holders"},
		{split(2, 1, 0, 2), shamir.ErrHolder, "holder 2 of 3 is 0"},
		{split(2, 7, 1, 7), shamir.ErrHolder, "holders 1 and 3 of 3 are both 7"},
		{split(9, 7, 0, 7), shamir.ErrThreshold, "9 shares would be needed"},
		{split(9, 7, 0, 7), shamir.ErrHolder, "holder 2 of 3 is 0"},
		{split(9, 7, 0, 7), shamir.ErrHolder, "holders 1 and 3 of 3 are both 7"},
		{lagrange(0, good...), shamir.ErrThreshold, "0; it must be at least 1"},
		{lagrange(4, good...), shamir.ErrTooFew, "3 holders, and the threshold is 4"},
		{lagrange(1, 5, 5), shamir.ErrHolder, "are both 5"},
		{lagrange(1, 0), shamir.ErrHolder, "holder 1 of 1 is 0"},
		{combine(shares[0]), shamir.ErrTooFew, "1, and the weights are for 2"},
		{combine(shares...), shamir.ErrMismatch, "3 shares, and the weights are for 2"},
		{combine(shares[1], shares[0]), shamir.ErrMismatch, "share 1 of 2 is of holder 2; holder 1 is due"},
		{combine(shares[0], shares[2]), shamir.ErrMismatch, "share 2 of 2 is of holder 3; holder 2 is due"},
		{secret(make([]byte, 31)), shamir.ErrEncoding, "a secret has 31 bytes; it must have 32"},
		{secret(encode(order, 32)), shamir.ErrEncoding, "a secret is not reduced"},
		{share(3, make([]byte, 33)), shamir.ErrEncoding, "the share of holder 3 has 33 bytes"},
		{share(3, encode(order, 32)), shamir.ErrEncoding, "the share of holder 3 is not reduced"},
		{share(0, make([]byte, 32)), shamir.ErrHolder, "a share for holder 0"},
	} {
		if !errors.Is(c.err, c.is) || !strings.Contains(c.err.Error(), c.text) {
			t.Errorf("error %v, want one that is %q and says %q", c.err, c.is, c.text)
		}
	}
}

// TestRandomFails hands on the reader's error and never a secret made of less.
func TestRandomFails(t *testing.T) {
	broken := errors.New("no more")
	for _, n := range []int{0, 1, 63} {
		short := func() *shortReader { return &shortReader{n, broken} }
		if _, err := shamir.NewSecret(short()); !errors.Is(err, broken) {
			t.Errorf("NewSecret after %d bytes: %v", n, err)
		}
		if s, err := shamir.Split(shamir.Secret{}, 2, []shamir.Index{1, 2}, short()); !errors.Is(err, broken) || s != nil {
			t.Errorf("Split after %d bytes: %v, %v", n, s, err)
		}
	}
	if _, err := shamir.Split(shamir.Secret{}, 1, []shamir.Index{1}, iotest.ErrReader(broken)); err != nil {
		t.Errorf("a threshold of 1 needs no randomness: %v", err)
	}
}

// shortReader gives left zero bytes and then fails.
type shortReader struct {
	left int
	err  error
}

func (r *shortReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, r.err
	}
	n := min(len(p), r.left)
	clear(p[:n])
	r.left -= n
	return n, nil
}

// FuzzParseShare accepts exactly the little endian integers below ℓ, and gives
// their bytes back. Secrets have the same encoding.
func FuzzParseShare(f *testing.F) {
	for _, d := range []int64{-1, 0, 1} {
		f.Add(uint32(1), encode(new(big.Int).Add(order, big.NewInt(d)), 32))
	}
	f.Add(uint32(0), make([]byte, 32))
	f.Add(uint32(5), bytes.Repeat([]byte{0xff}, 32))
	f.Add(uint32(5), []byte{})
	f.Fuzz(func(t *testing.T, holder uint32, b []byte) {
		want := len(b) == 32 && number(b).Cmp(order) < 0
		share, err := shamir.ParseShare(shamir.Index(holder), b)
		if (err == nil) != (want && holder != 0) {
			t.Errorf("share %x of holder %d: error %v", b, holder, err)
		}
		if got := share.Bytes(); err == nil && (!bytes.Equal(got[:], b) || uint32(share.Holder) != holder) {
			t.Errorf("share %x of holder %d came back as %x of %d", b, holder, got, share.Holder)
		}
		secret, err := shamir.ParseSecret(b)
		if (err == nil) != want {
			t.Errorf("secret %x: error %v", b, err)
		}
		if got := secret.Bytes(); err == nil && !bytes.Equal(got[:], b) {
			t.Errorf("secret %x came back as %x", b, got)
		}
	})
}

// dealing holds a dealer's secret and coefficients.
type dealing struct {
	secret    *big.Int
	threshold int
	holders   []shamir.Index
	random    []byte
}

func drawDealing(t *rapid.T) dealing {
	index := rapid.OneOf(rapid.Uint32Range(1, 12), rapid.Uint32Range(1<<32-4, 1<<32-1), rapid.Uint32Min(1))
	var holders []shamir.Index
	for _, x := range rapid.SliceOfNDistinct(index, 1, 9, rapid.ID[uint32]).Draw(t, "holders") {
		holders = append(holders, shamir.Index(x))
	}
	threshold := rapid.IntRange(1, len(holders)).Draw(t, "threshold")
	d := dealing{drawScalar(t, "secret"), threshold, holders, nil}
	for range threshold - 1 {
		d.random = append(d.random, encode(drawScalar(t, "coefficient"), 64)...)
	}
	return d
}

// drawScalar draws from 0 to ℓ-1, the ends more often.
func drawScalar(t *rapid.T, label string) *big.Int {
	b := rapid.OneOf(
		rapid.Just(make([]byte, 32)),
		rapid.Just(encode(big.NewInt(1), 32)),
		rapid.Just(encode(new(big.Int).Sub(order, big.NewInt(1)), 32)),
		rapid.SliceOfN(rapid.Byte(), 32, 32),
	).Draw(t, label)
	return new(big.Int).Mod(number(b), order)
}

func (d dealing) split(t fatal) []shamir.Share {
	t.Helper()
	shares, err := shamir.Split(secretOf(t, d.secret), d.threshold, d.holders, bytes.NewReader(d.random))
	if err != nil {
		t.Fatalf("%v", err)
	}
	return shares
}

// combine recovers the secret from all the shares given.
func combine(t fatal, threshold int, shares []shamir.Share) shamir.Secret {
	t.Helper()
	var holders []shamir.Index
	for _, s := range shares {
		holders = append(holders, s.Holder)
	}
	weights, err := shamir.NewLagrange(threshold, holders)
	if err != nil {
		t.Fatalf("%v", err)
	}
	secret, err := weights.Combine(shares)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return secret
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
