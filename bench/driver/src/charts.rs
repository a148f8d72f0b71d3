//! Charts of a run, as SVG.

use crate::cases;
use crate::server::Error;
use plotters::prelude::*;
use serde_json::Value;
use std::path::Path;

type Bars = Vec<(String, f64)>;

/// Draws throughput, latency, growth and the curve under an old transaction. Returns the
/// names of the charts. A chart without measurements is left out.
pub fn draw(all: &Value, out: &Path) -> Result<Vec<String>, Error> {
    let results = all["results"].as_array().cloned().unwrap_or_default();
    let of = |id: &str, values: &[(&str, &str)]| -> Bars {
        let rows = results.iter().filter(|row| row["id"] == id);
        rows.flat_map(|row| {
            values.iter().filter_map(|(suffix, pointer)| {
                let value = row["result"].pointer(pointer)?.as_f64()?;
                Some((format!("{}{suffix}", row["name"].as_str()?), value))
            })
        })
        .collect()
    };
    let rate = "/measured/found/per_second";
    let rates = [("", rate)];
    let quantiles = [
        (", p50", "/measured/found/seen/p50_ms"),
        (", p99", "/measured/found/seen/p99_ms"),
    ];
    let mut charts = vec![
        (
            "enqueue",
            "enqueue, 16 producers, messages/s",
            of(&cases::enqueue_by(16, 1), &rates),
        ),
        (
            "drain",
            "drain, 4 partitions, messages/s",
            of(&cases::drain_of(4, false), &rates),
        ),
        (
            "latency",
            "commit to handler, ms",
            of(cases::LATENCY_HERE, &quantiles),
        ),
        (
            "together",
            "8 producers and workers, messages/s",
            of(cases::TOGETHER, &rates),
        ),
    ];
    for (file, title, prefix) in [
        (
            "growth-backlog",
            "drain by backlog, messages/s",
            cases::BY_BACKLOG,
        ),
        (
            "growth-partitions",
            "drain by partitions, messages/s",
            cases::BY_PARTITIONS,
        ),
        (
            "growth-payload",
            "drain by payload, messages/s",
            cases::BY_PAYLOAD,
        ),
        (
            "growth-processes",
            "drain by processes, messages/s",
            cases::BY_PROCESSES,
        ),
    ] {
        let rows = results.iter().filter_map(|row| {
            let size = row["id"].as_str()?.strip_prefix(prefix)?;
            Some((size.to_owned(), row["result"].pointer(rate)?.as_f64()?))
        });
        charts.push((file, title, rows.collect()));
    }
    charts.retain(|(_, _, values)| !values.is_empty());
    for (file, title, values) in &charts {
        bars(out, file, title, values)?;
    }
    let mut names: Vec<String> = charts.iter().map(|(file, ..)| (*file).to_owned()).collect();
    if curves(out, &results)? {
        names.push("old-transaction".to_owned());
    }
    Ok(names)
}

/// A bar for each name.
fn bars(out: &Path, file: &str, title: &str, values: &[(String, f64)]) -> Result<(), Error> {
    let path = out.join(format!("{file}.svg"));
    let area = SVGBackend::new(&path, (720, 80 + 36 * values.len() as u32)).into_drawing_area();
    area.fill(&WHITE)?;
    let most = values.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 18))
        .margin(10)
        .x_label_area_size(30)
        .build_cartesian_2d(0.0..most * 1.25, 0.0..values.len() as f64)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .y_labels(0)
        .x_label_formatter(&|value| format!("{value:.0}"))
        .draw()?;
    for (index, (name, value)) in values.iter().enumerate() {
        let top = (values.len() - index) as f64;
        let color = if name.starts_with("outbox") {
            BLUE
        } else {
            RGBColor(150, 150, 150)
        };
        let corners = [(0.0, top - 0.15), (*value, top - 0.85)];
        chart.draw_series([Rectangle::new(corners, color.mix(0.6).filled())])?;
        let label = format!("{name}: {value:.1}");
        let place = (most * 0.01, top - 0.35);
        chart.draw_series([Text::new(label, place, ("sans-serif", 14))])?;
    }
    area.present()?;
    Ok(())
}

/// Messages in each second while an old transaction is open, if that was measured.
fn curves(out: &Path, results: &[Value]) -> Result<bool, Error> {
    let rows: Vec<(String, Vec<f64>)> = results
        .iter()
        .filter(|row| row["id"] == cases::OLD_TRANSACTION)
        .filter_map(|row| {
            let curve = row["result"].pointer("/measured/found/curve")?.as_array()?;
            let curve = curve.iter().filter_map(Value::as_f64).collect();
            Some((row["name"].as_str()?.to_owned(), curve))
        })
        .collect();
    if rows.is_empty() {
        return Ok(false);
    }
    let path = out.join("old-transaction.svg");
    let area = SVGBackend::new(&path, (720, 360)).into_drawing_area();
    area.fill(&WHITE)?;
    let seconds = rows.iter().map(|(_, curve)| curve.len()).max().unwrap_or(1);
    let most = rows
        .iter()
        .flat_map(|(_, curve)| curve)
        .copied()
        .fold(1.0, f64::max);
    let mut chart = ChartBuilder::on(&area)
        .caption(
            "messages/s while an old transaction is open",
            ("sans-serif", 18),
        )
        .margin(10)
        .x_label_area_size(30)
        .y_label_area_size(50)
        .build_cartesian_2d(0.0..seconds as f64, 0.0..most * 1.1)?;
    chart.configure_mesh().draw()?;
    for (index, (name, curve)) in rows.iter().enumerate() {
        let color = Palette99::pick(index).to_rgba();
        let points = curve
            .iter()
            .enumerate()
            .map(|(second, rate)| (second as f64, *rate));
        chart
            .draw_series(LineSeries::new(points, color))?
            .label(name.clone())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color));
    }
    chart.configure_series_labels().border_style(BLACK).draw()?;
    area.present()?;
    Ok(true)
}
