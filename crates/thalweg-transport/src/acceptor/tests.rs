use super::*;
use crate::certificates::{Authority, Folder, server_files};
use crate::client::TlsClientFiles;
use crate::tests::tls;

#[test]
fn intermediates_in_the_ca_file_complete_the_chain_of_a_server() {
    let folder = Folder::new();
    let root = Authority::new(&folder, "root");
    let upper = root.intermediate(&folder, "upper");
    let lower = upper.intermediate(&folder, "lower");
    // The name of one of them and another key: what a renewal leaves in such files.
    let others = Folder::new();
    let former = Authority::new(&others, "root").intermediate(&others, "lower");
    let read = |file: &Path| std::fs::read_to_string(file).unwrap();
    let bundle: String = [&former, &root, &lower, &upper]
        .map(|authority| read(&authority.file))
        .concat();
    let files = TlsFiles {
        client_ca: Some(folder.write("bundle.pem", &bundle)),
        ..server_files(&folder, &lower, ClientCertificates::None)
    };
    let trusting = TlsClientFiles {
        ca: Some(root.file.clone()),
        ..TlsClientFiles::default()
    };

    tls(&TlsAcceptor::new(files.clone()).unwrap(), &trusting).check();
    let shown = server_chain(&files).unwrap();
    let expected = [&files.certificate, &lower.file, &upper.file]
        .map(|file| read_certificates(file).unwrap().remove(0));
    assert_eq!(shown, expected);

    // A file with intermediates of its own is shown as it is.
    let chain = read(&files.certificate) + &read(&lower.file);
    let own = TlsFiles {
        certificate: folder.write("chain.pem", &chain),
        ..files
    };
    assert_eq!(server_chain(&own).unwrap().len(), 2);
}
