package stats

import "math"

// studentT is the two-sided quantile of Student's t distribution: the value
// that |T| exceeds with probability 1-confidence. The degrees of freedom
// need not be whole; below 1 they are taken as 1.
func studentT(confidence, df float64) float64 {
	df = max(df, 1)
	if df > 1e6 {
		df = 1e6 // the normal distribution, to five digits
	}
	tail := 1 - confidence
	// P(|T| > t) = I_x(df/2, 1/2) with x = df/(df+t²) (Abramowitz and Stegun
	// 26.7.1) falls in t: bisect.
	lo, hi := 0.0, 1.0
	for betaRegularized(df/(df+hi*hi), df/2, 0.5) > tail && hi < 1e9 {
		hi *= 2
	}
	for range 200 {
		mid := (lo + hi) / 2
		if mid == lo || mid == hi {
			break
		}
		if betaRegularized(df/(df+mid*mid), df/2, 0.5) > tail {
			lo = mid
		} else {
			hi = mid
		}
	}
	return (lo + hi) / 2
}

// betaRegularized is the regularised incomplete beta function I_x(a, b), by
// its continued fraction (Abramowitz and Stegun 26.5.8) evaluated with
// Lentz's method.
func betaRegularized(x, a, b float64) float64 {
	if x <= 0 {
		return 0
	}
	if x >= 1 {
		return 1
	}
	if x > (a+1)/(a+b+2) { // where the fraction converges fast
		return 1 - betaRegularized(1-x, b, a)
	}
	la, _ := math.Lgamma(a)
	lb, _ := math.Lgamma(b)
	lab, _ := math.Lgamma(a + b)
	front := math.Exp(lab-la-lb+a*math.Log(x)+b*math.Log1p(-x)) / a

	const tiny = 1e-300
	f, c, d := 1.0, 1.0, 0.0
	for i := range 10000 {
		m := float64(i / 2)
		var numerator float64
		switch {
		case i == 0:
			numerator = 1
		case i%2 == 0:
			numerator = m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m))
		default:
			numerator = -(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1))
		}
		if d = 1 + numerator*d; math.Abs(d) < tiny {
			d = tiny
		}
		d = 1 / d
		if c = 1 + numerator/c; math.Abs(c) < tiny {
			c = tiny
		}
		f *= c * d
		if math.Abs(c*d-1) < 1e-14 {
			break
		}
	}
	return front * (f - 1)
}
