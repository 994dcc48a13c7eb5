//! Bytes from a client of the control socket: an answer, never a panic; and what was understood is
//! the same after it has been written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weever_service_api::{LineReader, Response, decode_request, decode_response};

fuzz_target!(|data: &[u8]| {
    let mut reader = LineReader::new(data);
    while let Ok(Some(line)) = reader.next_line() {
        match decode_request(line) {
            Ok(request) => {
                let again = decode_request(request.encode().as_bytes());
                assert_eq!(again.as_ref(), Ok(&request));
            }
            Err(rejection) => {
                let answer = Response::<()>::new(rejection.id, Err(rejection.error)).encode();
                assert!(!answer.contains('\n'), "an answer is one line: {answer}");
                decode_response(answer.as_bytes()).expect("our own answers can be read");
            }
        }
        if let Ok(response) = decode_response(line) {
            let again = decode_response(response.encode().as_bytes()).expect("written by us");
            assert_eq!(again.id, response.id);
        }
    }
});
