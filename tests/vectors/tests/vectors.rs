//! Every case that was computed with sam comes out as it did there.

use apex_vectors::case::Case;

#[test]
fn every_case_computed_with_sam_passes() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../data/edit-vectors.jsonl");
    let lines = std::fs::read_to_string(path).expect("the cases are in the repository");
    let mut count = 0;
    let mut failed = Vec::new();
    for line in lines.split('\n').filter(|line| !line.is_empty()) {
        let case: Case = serde_json::from_str(line).expect("a case a line");
        count += 1;
        if let Err(mismatch) = case.check() {
            failed.push(format!("{}: {mismatch}", case.id));
        }
    }
    assert_eq!(count, 939);
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
