package dp

import (
	"math"
	"strings"
	"testing"
)

// A run that states 1 or 10 at δ = 1e-5 (one release, exact Gaussian, ω = 0.3, no colluders) really
// has the cost that the protocol's analysis gives.
func TestReplaceTable(t *testing.T) {
	const clients, required = 100, 70
	for _, c := range []struct {
		stated              float64
		survivors, answered int
		true                float64
	}{
		{1, 100, 100, 1.339}, {1, 70, 70, 1.465},
		{10, 100, 100, 13.94}, {10, 70, 70, 15.46},
	} {
		sigma := 1 / GaussianMu(c.stated, 1e-5)
		first, second, err := ReplaceViews(sigma*sigma, required, c.survivors, c.answered)
		if err != nil {
			t.Fatal(err)
		}
		r := epsilon(t, Exact, 1e-5, Gaussian(math.Sqrt(first)), Gaussian(math.Sqrt(second)))
		within(t, "true ε", r.Epsilon, c.true, 0.001)
	}
}

// Gaussian views with everything kept: the two views share the noise S of the clients that fell
// silent. Their exact joint information (a 2x2 covariance, inverted here) never exceeds the
// information of the views without S.
func TestReplaceViewsDominateTheSharedNoise(t *testing.T) {
	const v, required = 50.0, 60
	for survivors := required; survivors <= 100; survivors += 8 {
		for answered := required; answered <= survivors; answered += 5 {
			first, second, err := ReplaceViews(v, required, survivors, answered)
			if err != nil {
				t.Fatal(err)
			}
			a, b := v/required, v/float64(survivors)
			shared := float64(survivors-answered) * a
			v1, v2 := float64(answered)*a+shared, float64(answered)*b+shared
			joint := (v1 + v2 - 2*shared) / (v1*v2 - shared*shared) // 1ᵀ·Cov⁻¹·1
			charged := 1/first + 1/second
			if joint > charged*(1+1e-12) {
				t.Errorf("|U1| = %d, |U2| = %d: information %v is above the charged %v", survivors, answered, joint, charged)
			}
			if answered == survivors {
				within(t, "information when everybody answers", charged, joint, 1e-12)
				within(t, "final variance", second, v, 1e-12)
			}
		}
	}
}

// By hand: V = 70 and w = 70 make a = 1; with 100 survivors b = 0.7; 80 of them
// answer, so that the views keep 80·a and 80·b.
func TestReplaceViewsWithSilence(t *testing.T) {
	first, second, err := ReplaceViews(70, 70, 100, 80)
	if err != nil {
		t.Fatal(err)
	}
	within(t, "first view", first, 80, 1e-12)
	within(t, "second view", second, 56, 1e-12)
}

func TestReplaceViewsRefuse(t *testing.T) {
	_, _, err := ReplaceViews(-1, 0, -1, 5)
	for _, want := range []string{"variance is -1", "0 honest clients are certain", "-1 honest clients sent", "5 honest clients replaced"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not mention %q: %v", want, err)
		}
	}
	if _, _, err := ReplaceViews(10, 7, 9, 10); err == nil {
		t.Error("more clients answered than sent, and nobody minded")
	}
}
