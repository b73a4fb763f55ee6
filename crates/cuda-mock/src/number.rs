//! Floating-point numbers as in hardware: halves, directed rounding, flushing of subnormals.
#![expect(clippy::float_cmp, reason = "roundings are exact")]

use crate::code::{Round, Ty};

/// The number represented by bits of a type.
pub fn float(ty: Ty, bits: u64) -> f64 {
    match ty {
        Ty::F16 => half(bits as u16),
        Ty::Bf16 => f32::from_bits((bits as u32) << 16).into(),
        Ty::F64 => f64::from_bits(bits),
        _ => f32::from_bits(bits as u32).into(),
    }
}

/// The bits of a number in a type, rounded once.
pub fn bits(ty: Ty, value: f64, round: Round) -> u64 {
    match ty {
        Ty::F16 => to_half(value).into(),
        Ty::Bf16 => to_brain(value).into(),
        Ty::F64 => value.to_bits(),
        _ => single(value, round).to_bits().into(),
    }
}

/// Rounds to an integer.
pub fn whole(value: f64, round: Round) -> f64 {
    match round {
        Round::Nearest => value.round_ties_even(),
        Round::Zero => value.trunc(),
        Round::Down => value.floor(),
        Round::Up => value.ceil(),
    }
}

/// Rounds to single precision.
pub fn single(value: f64, round: Round) -> f32 {
    let near = value as f32;
    let (above, below) = (f64::from(near) > value, f64::from(near) < value);
    match round {
        Round::Down if above => near.next_down(),
        Round::Up if below => near.next_up(),
        Round::Zero if above && value > 0.0 => near.next_down(),
        Round::Zero if below && value < 0.0 => near.next_up(),
        _ => near,
    }
}

/// Flushes a subnormal number to zero.
pub fn flushed(value: f32) -> f32 {
    if value.is_subnormal() { 0.0_f32.copysign(value) } else { value }
}

fn half(bits: u16) -> f64 {
    let (sign, exponent, fraction) = (bits >> 15, i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    let magnitude = match exponent {
        0 => fraction * (-24_f64).exp2(),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + fraction / 1024.0) * f64::from(exponent - 15).exp2(),
    };
    if sign == 1 { -magnitude } else { magnitude }
}

fn to_half(value: f64) -> u16 {
    let sign = u16::from(value.is_sign_negative()) << 15;
    if value.is_nan() {
        return sign | 0x7E00;
    }
    let magnitude = value.abs();
    if magnitude >= 65520.0 {
        return sign | 0x7C00;
    }
    // In units of the last place, which do not shrink further below 2^-14.
    let exponent = magnitude.log2().floor().max(-14.0);
    let exponent = if magnitude < exponent.exp2() { (exponent - 1.0).max(-14.0) } else { exponent };
    let units = (magnitude / (exponent - 10.0).exp2()).round_ties_even() as u16;
    // A fraction that rounds up to the next power of two carries into the exponent.
    sign | ((((exponent as i32 + 14) as u16) << 10) + units)
}

fn to_brain(value: f64) -> u16 {
    let bits = single(value, Round::Nearest).to_bits();
    if value.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    // Rounding twice would be wrong if the first rounding results in a halfway point of the second.
    let inexact = f64::from(f32::from_bits(bits)) != value;
    let halfway = bits & 0xFFFF == 0x8000;
    let above = f64::from(f32::from_bits(bits)).abs() > value.abs();
    let up = if inexact && halfway { !above } else { bits & 0xFFFF > 0x8000 || (halfway && bits >> 16 & 1 == 1) };
    (bits >> 16) as u16 + u16::from(up)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_go_there_and_back() {
        for bits in 0..=u16::MAX {
            let value = half(bits);
            if value.is_nan() {
                assert!(half(to_half(value)).is_nan());
            } else {
                assert_eq!(to_half(value), bits, "{value}");
            }
        }
        assert_eq!(to_half(65519.9), 0x7BFF);
        assert_eq!(to_half(1.0 + 1.0 / 2048.0), 0x3C00, "ties to even");
        assert_eq!(to_half(2.0 - 1.0 / 4096.0), 0x4000, "carries into the exponent");
    }

    #[test]
    fn roundings_are_directed() {
        let third = 1.0 / 3.0;
        let [near, zero, down, up] = [Round::Nearest, Round::Zero, Round::Down, Round::Up].map(|round| single(third, round));
        assert!(f64::from(down) < third && f64::from(up) > third && zero == down && (near == up || near == down));
        assert_eq!(single(-third, Round::Zero), -down);
        assert_eq!(whole(2.5, Round::Nearest), 2.0);
        assert_eq!(to_brain(1.0 + 1.0 / 256.0), 0x3F80, "ties to even");
        assert_eq!(to_brain(1.0 + 1.0 / 256.0 + 1e-12), 0x3F81, "not rounded twice");
    }
}
