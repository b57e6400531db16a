package dp

import (
	"errors"
	"math"

	"github.com/fedsim/fedsim/internal/problems"
)

// ReplaceViews returns the noise variances of the two views of a sum G that the published two-round
// noise scheme reveals, in the units of variance. Charge both views, each as a release of its own.
//
// variance is the target V. required = ⌈(1-ω)N⌉ - c is w, the number of honest clients certain to
// remain. survivors = |U1| - c counts the honest clients whose masked input arrived, at least w.
// answered = |U2| - c counts the honest clients that replaced their noise in round two, at most
// survivors.
//
// Every client of U1 first adds noise of variance a = V/w. In round two the clients of U2 take it
// back and add fresh noise of variance b = V/|U1|. The server holds, up to the terms that colluders
// can subtract,
//
//	G + S + Σ_{U2} ξ    and    G + S + Σ_{U2} ξ',    S = Σ_{U1 \ U2} ξ.
//
// Take S away from both: G + Σξ and G + Σξ' are two releases with independent noise, of variances
// |U2|·a and |U2|·b. Adding one independent S to both is post-processing and gives the server's
// views, so the pair without S costs at least as much as the pair with it. If every client answers,
// S is empty and nothing was given away: the variances are |U1|·a and V.
func ReplaceViews(variance float64, required, survivors, answered int) (first, second float64, err error) {
	var errs problems.List
	errs.If(!(variance > 0) || math.IsInf(variance, 1), "dp: variance is %v; it must be positive and finite", variance)
	errs.If(required < 1, "dp: %d honest clients are certain to remain; there must be at least 1", required)
	errs.If(survivors < required,
		"dp: %d honest clients sent a masked input; fewer than the required %d must not be summed", survivors, required)
	errs.If(answered < 1 || answered > survivors,
		"dp: %d honest clients replaced their noise; it must be from 1 to the %d that sent a masked input", answered, survivors)
	if err := errors.Join(errs...); err != nil {
		return 0, 0, err
	}
	u2 := float64(answered)
	return u2 * variance / float64(required), u2 * variance / float64(survivors), nil
}
