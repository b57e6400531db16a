package align

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/gtank/ristretto255"

	"github.com/fedsim/fedsim/internal/entropy/simulated"
)

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The vectors of RFC 9497, appendix A.1.1: OPRF(ristretto255, SHA-512), mode OPRF.
func TestVectorsOfRFC9497(t *testing.T) {
	const domain = "HashToGroup-OPRFV1-\x00-ristretto255-SHA512"
	scalar := func(s string) *ristretto255.Scalar {
		x, err := ristretto255.NewScalar().SetCanonicalBytes(unhex(t, s))
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	secret := scalar("5ebcea5ee37023ccb9fc2d2019f9d7737be85591ae8652ffa9ef0f4d37063b0e")
	blind := scalar("64d37aed22a27f5191de1c1d69fadb899d8862b58eb4220029e036ec4c1f6706")
	for _, v := range []struct{ input, blinded, evaluated, output string }{
		{
			"00", "609a0ae68c15a3cf6903766461307e5c8bb2f95e7e6550e1ffa2dc99e412803c", "7ec6578ae5120958eb2db1745758ff379e77cb64fe77b0b2d8cc917ea0869c7e",
			"527759c3d9366f277d8c6020418d96bb393ba2afb20ff90df23fb7708264e2f3ab9135e3bd69955851de4b1f9fe8a0973396719b7912ba9ee8aa7d0b5e24bcf6",
		},
		{
			"5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a", "da27ef466870f5f15296299850aa088629945a17d1f5b7f5ff043f76b3c06418", "b4cbf5a4f1eeda5a63ce7b77c7d23f461db3fcab0dd28e4e17cecb5c90d02c25",
			"f4a74c9c592497375e796aa837e907b1a045d34306a749db9f34221f7e750cb4f2a6413a6bf6fa5e19ba6348eb673934a722a7ede2e7621306d18951e7cf2c73",
		},
	} {
		input := unhex(t, v.input)
		p := hash(input, []byte(domain)).Bytes()
		for _, step := range []struct {
			by   *ristretto255.Scalar
			want string
		}{{blind, v.blinded}, {secret, v.evaluated}} {
			if err := multiply(p, step.by); err != nil {
				t.Fatal(err)
			}
			if got := hex.EncodeToString(p); got != step.want {
				t.Errorf("input %s: %s, want %s", v.input, got, step.want)
			}
		}
		if err := multiply(p, ristretto255.NewScalar().Invert(blind)); err != nil {
			t.Fatal(err)
		}
		if got := digest(input, p); !bytes.Equal(got[:], unhex(t, v.output)) {
			t.Errorf("input %s: the output is %x, want %s", v.input, got, v.output)
		}
	}
}

// The bad encodings are of RFC 9496, appendix A.3: not canonical, negative, no square, and the identity.
func TestPointsThatAreRefused(t *testing.T) {
	one, err := drawScalar(simulated.New(1, "scalar").Stream("x", 0))
	if err != nil {
		t.Fatal(err)
	}
	for bad, want := range map[string]error{
		"00ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff": errPoint,
		"0100000000000000000000000000000000000000000000000000000000000000": errPoint,
		"26948d35ca62e643e26a83177332e6b6afeb9d08e4268b650f1f5bbd8d81d371": errPoint,
		"3eb858e78f5a7254d8c9731174a94f76755fd3941c0ac93735c07ba14579630e": errPoint,
		"0000000000000000000000000000000000000000000000000000000000000000": errIdentity,
	} {
		if got := multiply(unhex(t, bad), one); got != want {
			t.Errorf("%s: %v, want %v", bad, got, want)
		}
	}
}

// FuzzParse checks that parse reads any sealed message as encode would write it, or refuses it.
func FuzzParse(f *testing.F) {
	f.Add(body{kind: points, a: 1, b: 2, entries: make([]byte, 64)}.encode())
	f.Add(body{kind: done}.encode())
	f.Add([]byte{3, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := parse(b); err == nil && !bytes.Equal(m.encode(), b) {
			t.Errorf("%x is read as %+v", b, m)
		}
	})
}
